# Writes a C file that holds texts as arrays. Run as
#   cmake -DOUTPUT=file.c -DROOT=folder -DMANIFESTS=a.json,b.json -DTEMPLATES=c.wgsl.jinja,...
#     -P QuireEmbedTexts.cmake
# Paths are kept relative to ROOT. Arrays of numbers rather than string literals: C11 promises only
# 4095 characters of those.
set(arrays "")
set(index 0)
foreach(kind IN ITEMS MANIFESTS TEMPLATES)
  string(REPLACE "," ";" inputs "${${kind}}")
  set(records "")
  set(count 0)
  foreach(input IN LISTS inputs)
    file(READ ${input} bytes HEX)
    string(LENGTH "${bytes}" length)
    math(EXPR length "${length} / 2")
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
      "\\1\n" bytes "${bytes}")
    string(APPEND arrays "static const unsigned char text_${index}[] = {\n${bytes}0};\n\n")
    file(RELATIVE_PATH path ${ROOT} ${input})
    string(APPEND records "    {\"${path}\", (const char *)text_${index}, ${length}},\n")
    math(EXPR index "${index} + 1")
    math(EXPR count "${count} + 1")
  endforeach()
  string(TOLOWER ${kind} name)
  set(${name}_records "${records}    {0, 0, 0}")
  set(${name}_count ${count})
endforeach()
file(WRITE ${OUTPUT} "#include \"embedded_texts.h\"

${arrays}const quire_embedded_text quire_embedded_manifests[] = {
${manifests_records}};
const size_t quire_embedded_manifest_count = ${manifests_count};

const quire_embedded_text quire_embedded_templates[] = {
${templates_records}};
const size_t quire_embedded_template_count = ${templates_count};
")
