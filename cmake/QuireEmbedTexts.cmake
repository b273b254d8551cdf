# Writes a C file that holds texts as arrays. Run as
#   cmake -DOUTPUT=file.c -DINPUTS=a.json,b.json -P QuireEmbedTexts.cmake
# Arrays of numbers rather than string literals: C11 promises only 4095 characters of those.
string(REPLACE "," ";" INPUTS "${INPUTS}")
set(arrays "")
set(records "")
set(index 0)
foreach(input IN LISTS INPUTS)
  file(READ ${input} bytes HEX)
  string(LENGTH "${bytes}" length)
  math(EXPR length "${length} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
    "\\1\n" bytes "${bytes}")
  string(APPEND arrays "static const unsigned char text_${index}[] = {\n${bytes}0};\n\n")
  string(APPEND records "    {(const char *)text_${index}, ${length}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"embedded_texts.h\"

${arrays}const quire_embedded_text quire_embedded_manifests[] = {
${records}};
const size_t quire_embedded_manifest_count = ${index};
")
