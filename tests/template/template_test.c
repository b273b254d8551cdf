/* Templates: statements, white space, expressions, names, declarations; each error with its place.
 */
#include <stdio.h>
#include <string.h>

#include "template_fixture.h"

typedef struct row {
  const char *text;
  const char *result;
} row;

static void check(template_world *world, const row *rows, size_t count) {
  size_t failed = 0;
  for (size_t i = 0; i < count; i++) {
    const char *result = template_render(world, rows[i].text);
    if (strcmp(result, rows[i].result) != 0) {
      print_error("row %zu: %s\n  gives %s\n  not   %s\n", i, rows[i].text, result, rows[i].result);
      failed++;
    }
  }
  assert_int_equal(failed, 0);
}

#define CHECK(rows)                                     \
  do {                                                  \
    template_world world;                               \
    template_world_create(&world);                      \
    check(&world, rows, sizeof(rows) / sizeof *(rows)); \
    template_world_destroy(&world);                     \
  } while (0)

static void statements(void **state) {
  (void)state;
  static const row rows[] = {
      {"a{{ 1 + 2 }}b", "a3b"},
      {"{% if high == 2 %}yes{% else %}no{% endif %}", "yes"},
      {"{% if high == 3 %}a{% elif columns == 6 %}b{% else %}c{% endif %}", "b"},
      {"{% if 0 %}a{% elif \"\" %}b{% elif nothing %}c{% else %}d{% endif %}", "d"},
      {"{% if 0 %}a{% endif %}", ""},
      {"{% for i in range(3) %}{{ i }},{% endfor %}", "0,1,2,"},
      {"{% for i in range(2, 5) %}{{ i }}{% endfor %}", "234"},
      {"{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}", "531"},
      {"{% for i in range(3, 3) %}x{% endfor %}{% for i in range(-1) %}x{% endfor %}", ""},
      {"{% for i in list %}{{ i * i }} {% endfor %}", "1 4 9 "},
      {"{% for n in shapes.x %}{{ loop.index0 }}{{ loop.index }}{{ loop.first }}{{ loop.last }}"
       "{{ loop.length }};{% endfor %}",
       "01truefalse2;12falsetrue2;"},
      {"{% for i in [\"a\", 2.5, true] %}{{ i }} {% endfor %}", "a 2.5 true "},
      {"{% for i in range(2) %}{% for j in range(2) %}{{ i }}{{ j }}{{ loop.index }} {% endfor %}"
       "{{ loop.index }};{% endfor %}",
       "001 012 1;101 112 2;"},
      {"{% set v = 5 %}{{ v }}{% set v = v + 1 %}{{ v }}", "56"},
      {"{% if 1 %}{% set v = 2 %}{% endif %}{{ v }}", "2"},
      {"{% set v = 1 %}{% for i in range(3) %}{% set v = v * 2 %}{{ v }}{% endfor %};{{ v }}",
       "248;1"},
      {"{% for i in range(3) %}{% set w = w + 1 if w is defined else 0 %}{{ w }}{% endfor %}{{ w "
       "}}",
       "012"},
      {"{% set high = 9 %}{{ high }}", "9"},
      {"{% macro m(a, b=a + 1) %}[{{ a }}|{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 5) }}"
       "{{ m(b=7, a=6) }}{{ m() is defined }}",
       "BAD_MANIFEST pack/age/main.wgsl.jinja:2:100: syntax: `is defined` takes a name"},
      {"{% macro m(a, b=a + 1) %}[{{ a }}|{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 5) }}"
       "{{ m(b=7, a=6) }}",
       "[1|2][1|5][6|7]"},
      {"{% macro m(a) %}{{ a }}{% endmacro %}{{ m() }}.", "."},
      {"{% macro a() %}A{% endmacro %}{% macro b() %}{{ a() }}B{% endmacro %}{{ b() ~ b() }}",
       "ABAB"},
      {"{% set g = 1 %}{% macro m() %}{{ g }}{{ i }}{{ loop }}{% endmacro %}"
       "{% for i in range(2) %}{{ m() }}{% endfor %}",
       "11"},
      {"{% macro m(x) %}{% set y = x * 2 %}{{ y }}{% endmacro %}{{ m(2) }}{{ y }}{{ m(3) }}", "46"},
      {"{% macro m() %}one{% endmacro %}{{ m() }}{% macro m() %}two{% endmacro %}{{ m() }}",
       "onetwo"},
      {"{% if 1 %}{% macro m() %}in{% endmacro %}{% endif %}{{ m() }}", "in"},
      {"{% macro m(a=max(1, [2, 3][1]), b=\"),\") %}{{ a }}{{ b }}{% endmacro %}{{ m() }}", "3),"},
      {"{% raw %}{{ a }}{% if %}{# x #}{% endraw %}", "{{ a }}{% if %}{# x #}"},
      {"{% raw %}{{ \"{% endraw %}x", "{{ \"x"},
      {"{% raw %}{% endraw x %}{% 'endraw' %}{%{% endrawn %}{# {%\t-endraw %}{%-endraw%}x",
       "{% endraw x %}{% 'endraw' %}{%{% endrawn %}{# {%\t-endraw %}x"},
      {"{% raw %}{% endraw \" {%- \t\nendraw\n\t-%} x", "{% endraw \"x"},
      {"{% raw %}{{% endraw %}{% endraw %}", "{{% endraw %}"},
      {"a{# {{ broken }} {% for %} #}b", "ab"},
      {"{{ \"%} }} {#\" }}", "%} }} {#"},
      {"{% if \"%}\" == \"%}\" %}same{% endif %}", "same"},
      {"{ { } } {# #}{a}", "{ { } } {a}"},
  };
  CHECK(rows);
}

static void white_space(void **state) {
  (void)state;
  static const row rows[] = {
      {"a\n{% if 1 %}\nb\n{% endif %}\nc\n", "a\nb\nc"},
      {"a\n  {% if 1 %}  \nb\n\t{% endif %}\n\nc\n\n", "a\n  \nb\n\nc\n"},
      {"a  {% if 1 %}b{% endif %}", "a  b"},
      {"a\n  {# note #}\nb", "a\nb"},
      {"a\n  {{ 1 }}\nb", "a\n  1\nb"},
      {"a \n {%- if 1 -%} \n b {%- endif -%} \n c", "abc"},
      {"a \n {{- 1 -}} \n b", "a1b"},
      {"a \n {#- x -#} \n b", "ab"},
      {"a {{ 1 -}} \n\t b", "a 1b"},
      {"{% set a = 1 %}\n{% set b = 2 %}\n{{ a + b }}\n", "3"},
      {"{% if 1 %}\n\nx{% endif %}", "\nx"},
      {"{% if 1 %}{% if 1 %}\n  x{% endif %}{% endif %}", "  x"},
      {"{% raw %}\n x \n{% endraw %}\ny", " x \ny"},
      {"{% raw -%}\n x \n {%- endraw %}y", "xy"},
      {"a\r\n{% if 1 %}b{% endif %}", "a\r\nb"},
      {"{{ 1 }}  {% if 1 %}x{% endif %}", "1  x"},
      {"{%if 1%}x{%endif%}", "x"},
      {"{{-1-}}", "1"},
      {"\n\n", "\n"},
      {"", ""},
  };
  CHECK(rows);
}

static void expressions(void **state) {
  (void)state;
  static const row rows[] = {
      {"{{ 1 ~ \"a\" ~ 2.5 ~ true ~ nothing }}", "1a2.5true"},
      {"{{ \"a\" + 1 }}{{ 1 + \"a\" }}{{ 1 + 2 ~ 3 }}", "a11a33"},
      {"{{ 8 / 2 }} {{ 9 / 2 }} {{ 1 / 3 }}", "4 4.5 0.3333333333333333"},
      {"{{ pow(2, 60) }} {{ pow(2, 62) / 1 }} {{ pow(10, 20) }}",
       "1152921504606846976 4611686018427387904 1e+20"},
      {"{{ list[0] }}{{ list[2] }}{{ list[-1] }}{{ [[1, 2], [3]][0][1] }}", "1332"},
      {"{{ shapes.x[1] }}{{ (1 + list[1]) * 2 }}", "66"},
      {"{{ 2 in list }}{{ 4 in list }}{{ \"a\" in [\"a\"] }}{{ not 1 in [] }}",
       "truefalsetruetrue"},
      {"{{ 1 if 0 }}|{{ 1 if 1 }}|{{ (2 if 0) | default(3) }}|{{ 1 if 0 else 2 if 0 else 3 }}",
       "|1|3|3"},
      {"{{ [1 if 0, 2][0] }}",
       "BAD_MANIFEST pack/age/main.wgsl.jinja:2:4: undefined: `[1 if 0, 2]`"},
      {"{{ 7 | u32 }} {{ -7 | i32 }} {{ 255 | hex }} {{ 4294967295 | u32 }}",
       "7u -7i 0xffu 4294967295u"},
      {"{{ 0.125 | f32 }} {{ 1 | f32 }} {{ 0.1 | f32 }} {{ 100000 | f32 }} {{ 0 | f32 }}",
       "0.125f 1f 0.1f 1e5f 0f"},
      {"{{ 16777217 | f32 }} {{ -2.5 | f32 }} {{ 0.00001 | f32 }} {{ 3.402823466e38 | f32 }}",
       "16777216f -2.5f 1e-5f 3.4028235e38f"},
      {"{{ 0.3 | f32 }} {{ 1.17549435e-38 | f32 }} {{ 1e-45 | f32 }} {{ 123456.78 | f32 }}",
       "0.3f 1.1754944e-38f 1e-45f 123456.78f"},
      {"{{ 2.9 | int }}{{ -2.9 | int }}{{ 7 | int }}", "2-27"},
      {"{{ \"aZ9\" | upper }}{{ \"aZ9\" | lower }}{{ \"abc\" | length }}{{ list | length }}",
       "AZ9az933"},
      {"{{ list | join(\", \") }}{{ [] | join(\"x\") }}{{ [1, \"a\", 0.5] | join(\"\") }}",
       "1, 2, 31a0.5"},
      {"{{ nothing | default(\"d\") }}{{ attrs.none | default(1 + 1) }}{{ 0 | default(5) }}",
       "d20"},
      {"{{ -1 | i32 }}{{ 1 + 2 | u32 }}", "-1i12u"},
      {"{{ list | join(\"-\") | upper | length }}", "5"},
      {"{{ nothing is defined }}{{ high is defined }}{{ attrs.unheard is not defined }}",
       "falsetruetrue"},
      {"{{ max(high, columns) }}{{ ceilDiv(7, 2) }}{{ has(attrs, \"a\") }}{{ f16Ok(T) }}",
       "64truetrue"},
      {"{{ nothing }}|{{ true }}|{{ \"\" }}", "|true|"},
      {"{{ 'single' ~ \"\\\"x\\n\" }}", "single\"x\n"},
  };
  CHECK(rows);
}

static void names(void **state) {
  (void)state;
  static const row rows[] = {
      {"{{ high }}{{ columns }}{{ own }}{{ shadow }}", "2612variant"},
      {"{{ attrs.a }}{{ attrs.s }}{{ attrs.factor }}{{ attrs.none }}", "3text0.5"},
      {"{{ tunables.tile }} {{ T }} {{ dtypes.T }} {{ tensorDtypes.x }}",
       "enable f16;\n8 f16 f16 float16"},
      {"{{ ranks.x }}{{ present.x }}{{ present.bias }}{{ dense.x }}{{ strides.x[0] }}",
       "2truefalsetrue6"},
      {"{{ device.limits.maxNovelty }} {{ device.limits.maxBufferSize }} {{ device.limits.unheard "
       "}}|",
       "77 268435456 |"},
      {"{{ device.adapterInfo.type }} {{ env.device.adapterInfo.type }} {{ env.device.backend }}",
       "CPU CPU webgpu"},
      {"{{ device.features.has(\"subgroups\") }}{{ env.device.features.has(\"x\") }}", "truefalse"},
      {"{{ env.device.limits.maxNovelty }} {{ DISPATCH_FOLD_WIDTH }} {{ device.precision }}",
       "77 65535 exact"},
      {"{{ variant }} {{ pass.id }} {{ pass.name }}", "only first Probe.First"},
      {"{{ workgroup.x }}{{ workgroup.y }}{{ workgroup.z }}", "321"},
      {"{{ bindings.x.binding }} {{ bindings.x.type }} {{ bindings.x.access }} {{ bindings.x.kind "
       "}} "
       "{{ bindings.x.source }} {{ bindings.x.fields is defined }}",
       "enable f16;\n0 f16 read arg x false"},
      {"{{ bindings.work.binding }} {{ bindings.work.access }} {{ bindings.work.kind }} "
       "{{ bindings.work.source }} {{ bindings.work.type }}",
       "1 read_write scratch work f32"},
      {"{{ bindings.params.binding }} {{ bindings.params.type }} {{ bindings.params.access }} "
       "{{ bindings.params.kind }} {{ bindings.params.fields | join(\",\") }}",
       "3 Params uniform uniform n,scale"},
      {"{{ bindings.bias.binding is defined }}{{ bindings.nothing.binding is defined }}",
       "falsefalse"},
      {"{% set variant = 1 %}{{ variant }}", "1"},
      {"{% set pass = 1 %}{{ pass }}{{ pass.id is defined }}", "1false"},
  };
  CHECK(rows);
}

static void errors(void **state) {
  (void)state;
#define AT "BAD_MANIFEST pack/age/main.wgsl.jinja:"
  static const row rows[] = {
      {"a\n {{ 1 + }}", AT "3:8: syntax: expected a value, found the end of the text"},
      {"{{ 1", AT "2:1: syntax: `{{` without an end"},
      {"x{% if 1", AT "2:2: syntax: `{%` without an end"},
      {"{# a", AT "2:1: syntax: `{#` without an end"},
      {"{% if 1 %}\n{% for i in list %}{% endfor %}", AT "2:1: syntax: this block has no end"},
      {"{% endif %}", AT "2:1: syntax: `endif` ends nothing that is open here"},
      {"{% for i in list %}{% endif %}", AT "2:20: syntax: `endif` ends nothing that is open here"},
      {"{% if 1 %}{% else %}{% else %}{% endif %}", AT "2:21: syntax: a branch behind `else`"},
      {"{% else %}", AT "2:1: syntax: `else` without `if`"},
      {"{% elif 1 %}", AT "2:1: syntax: `elif` without `if`"},
      {"{% if 1 %}{% endif x %}", AT "2:20: syntax: nothing may follow here"},
      {"{% import \"a\" %}", AT "2:1: syntax: unknown statement `import`"},
      {"{% %}", AT "2:1: syntax: unknown statement ``"},
      {"{% for in list %}{% endfor %}", AT "2:8: syntax: expected a name that is no keyword"},
      {"{% for i of list %}{% endfor %}", AT "2:10: syntax: expected `in`"},
      {"{% set a %}", AT "2:9: syntax: expected `=`"},
      {"{% set 1 = a %}", AT "2:8: syntax: expected a name that is no keyword"},
      {"{% for i in list %}{% set i = 1 %}{% endfor %}",
       AT "2:27: syntax: a loop variable or parameter cannot be set"},
      {"{% macro m(a) %}{% set a = 1 %}{% endmacro %}",
       AT "2:24: syntax: a loop variable or parameter cannot be set"},
      {"{% for i in list %}{% macro m() %}{% endmacro %}{% endfor %}",
       AT "2:20: syntax: a macro inside a loop or another macro"},
      {"{% macro m(a, a) %}{% endmacro %}", AT "2:15: syntax: two parameters of one name"},
      {"{% macro m %}{% endmacro %}", AT "2:11: syntax: expected `(`"},
      {"{% macro m(a %}{% endmacro %}", AT "2:13: syntax: expected `,` or `)`"},
      {"{% macro m(a) %}{{ m(1) }}{% endmacro %}", AT "2:20: syntax: unknown function `m`"},
      {"{{ m(1) }}{% macro m(a) %}{% endmacro %}", AT "2:4: syntax: unknown function `m`"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
       AT "2:39: syntax: the macro takes 1 argument"},
      {"{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
       AT "2:36: syntax: the macro has no parameter `b`"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", AT "2:39: syntax: `a` is given twice"},
      {"{% macro m(a, b) %}{% endmacro %}{{ m(b=2, 1) }}",
       AT "2:44: syntax: an argument without a name after one with a name"},
      {"{% if 1 %}{% macro m() %}{% endmacro %}{% else %}{% macro m() %}{% endmacro %}{% endif %}",
       AT "2:59: syntax: another macro has this name, and one of them is in an `if`"},
      {"{% if 0 %}{% macro m() %}{% endmacro %}{% endif %}{{ m() }}", AT "2:54: undefined: `m()`"},
      {"{% macro m(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, "
       "a16) %}{% endmacro %}",
       AT "2:82: syntax: more than 16 parameters"},
      {"{{ range(3) }}", AT "2:4: syntax: range() is for `for` alone"},
      {"{% for i in [range(3)] %}{% endfor %}", AT "2:14: syntax: range() is for `for` alone"},
      {"{% for i in range(1, 2, 0) %}{% endfor %}", AT "2:13: range: `range(1, 2, 0)`"},
      {"{% for i in range(1.5) %}{% endfor %}", AT "2:13: range: `range(1.5)`"},
      {"{% for i in 5 %}{% endfor %}", AT "2:13: type: `5`"},
      {"{% for i in nothing %}{% endfor %}", AT "2:13: undefined: `nothing`"},
      {"{{ 1 | wrong }}", AT "2:8: syntax: unknown filter `wrong`"},
      {"{{ 1 | join }}", AT "2:8: syntax: join takes 1 argument, not 0"},
      {"{{ \"a\" | u32 }}", AT "2:4: type: `\"a\" | u32`"},
      {"{{ 1.5 | u32 }}", AT "2:4: range: `1.5 | u32`"},
      {"{{ -1 | hex }}", AT "2:4: range: `-1 | hex`"},
      {"{{ 2147483648 | i32 }}", AT "2:4: range: `2147483648 | i32`"},
      {"{{ 1e39 | f32 }}", AT "2:4: range: `1e39 | f32`"},
      {"{{ nothing | f32 }}", AT "2:4: undefined: `nothing | f32`"},
      {"{{ \"a\" | f32 }}", AT "2:4: type: `\"a\" | f32`"},
      {"{{ \"a\" | int }}", AT "2:4: type: `\"a\" | int`"},
      {"{{ 1e19 | int }}", AT "2:4: range: `1e19 | int`"},
      {"{{ 1 | upper }}", AT "2:4: type: `1 | upper`"},
      {"{{ list | lower }}", AT "2:4: type: `list | lower`"},
      {"{{ 1 | length }}", AT "2:4: type: `1 | length`"},
      {"{{ \"a\" | join(\",\") }}", AT "2:4: type: `\"a\" | join(\",\")`"},
      {"{{ list | join(1) }}", AT "2:4: type: `list | join(1)`"},
      {"{{ list }}", AT "2:4: type: `list`"},
      {"{{ infinite }}", AT "2:4: range: `infinite`"},
      {"{{ 0 / 0 }}", AT "2:4: range: `0 / 0`"},
      {"{{ 1 ~ list }}", AT "2:4: type: `1 ~ list`"},
      {"{{ list[3] }}{{ list[-4] }}", AT "2:4: range: `list[3]`"},
      {"{{ list[0.5] }}", AT "2:4: type: `list[0.5]`"},
      {"{{ 1 in 2 }}", AT "2:4: type: `1 in 2`"},
      {"{{ nothing + 1 }}", AT "2:4: undefined: `nothing + 1`"},
      {"{{ broken }}", AT "2:4: type: `1 + attrs.s`"},
      {"{{ attrs.unheard }}", AT "2:4: unknown-name: `attrs.unheard`"},
      {"{{ attrs }}", AT "2:4: unknown-name: `attrs`"},
      {"{{ nothing.member }}", AT "2:4: unknown-name: `nothing.member`"},
      {"{{ bindings.nothing.type }}", AT "2:4: unknown-name: `bindings.nothing.type`"},
      {"{{ loop.index }}", AT "2:4: unknown-name: `loop.index`"},
      {"{{ env.wgsl.other }}", AT "2:4: unknown-name: `env.wgsl.other`"},
      {"{{ big + 1 }}", "LIMIT pack/age/main.wgsl.jinja:2:4: overflow: `big + 1`"},
      {"{% raw %}", AT "2:1: syntax: `raw` without `endraw`"},
      {"{% macro m() %}\n\n{{ 1 + nothing }}{% endmacro %}\n{{ m() }}",
       AT "4:4: undefined: `1 + nothing`"},
      {"{{ a = 1 }}", AT "2:6: syntax: expected the end of the text, found `=`"},
  };
  CHECK(rows);
#undef AT
}

/* ---- includes ---- */

static const char *with_files(template_world *world, const template_file *files, size_t count) {
  memset(world->files, 0, sizeof world->files);
  memcpy(world->files, files, count * sizeof *files);
  return template_render_pass(world, 0, &quire_default_allocator);
}

#define INCLUDE(expected, ...)                                                              \
  do {                                                                                      \
    const template_file files[] = {__VA_ARGS__};                                            \
    assert_string_equal(with_files(&world, files, sizeof files / sizeof *files), expected); \
  } while (0)
#define MAIN "pack/age/main.wgsl.jinja"
#define SILENT "{% set d = env.wgsl.resourceDeclarations %}"

static void includes(void **state) {
  (void)state;
  template_world world;
  template_world_create(&world);
  INCLUDE("[X\n]", {MAIN, SILENT "[{% include \"common/x.wgsl\" %}]"}, {"common/x.wgsl", "X\n"});
  INCLUDE("[Y]", {MAIN, SILENT "[{% include './y' %}]"}, {"pack/age/y", "Y"});
  INCLUDE("[Z]", {MAIN, SILENT "[{%- include \"../../z\" -%}]"}, {"z", "Z"});
  INCLUDE("5", {MAIN, SILENT "{% include \"m\" %}{{ m(5) }}"},
          {"m", "{% macro m(a) %}{{ a }}{% endmacro %}"});
  INCLUDE("ab", {MAIN, SILENT "{% include \"x\" %}b{% include \"y\" %}"}, {"x", "{% if 1 %}a"},
          {"y", "{% endif %}"});
  INCLUDE("{% include \"x\" %}", {MAIN, SILENT "{% raw %}{% include \"x\" %}{% endraw %}"});
  INCLUDE("{% endraw x %}{% include \"x\" %}",
          {MAIN, SILENT "{% raw %}{% endraw x %}{% include \"x\" %}{% endraw %}"});
  INCLUDE("NOT_FOUND pack/age/main.wgsl.jinja:2:3: include: there is no file `x`",
          {MAIN, SILENT "\n  {% include \"x\" %}"});
  INCLUDE(
      "BAD_MANIFEST pack/age/main.wgsl.jinja:1:1: include: `../../../x` is no path in the package",
      {MAIN, "{% include \"../../../x\" %}"});
  INCLUDE("BAD_MANIFEST pack/age/main.wgsl.jinja:1:1: include: `/etc/x` is no path in the package",
          {MAIN, "{% include \"/etc/x\" %}"});
  INCLUDE("BAD_MANIFEST pack/age/main.wgsl.jinja:1:1: include: include takes one path in quotes",
          {MAIN, "{% include x %}"});
  INCLUDE("BAD_MANIFEST b:1:2: include: `a` includes itself", {MAIN, "{% include \"a\" %}"},
          {"a", "{% include \"./b\" %}"}, {"b", " {% include \"a\" %}"});
  INCLUDE("BAD_MANIFEST b:2:4: type: `\"s\" < 1`", {MAIN, "x\n{% include \"a\" %}"},
          {"a", "y{% include \"./b\" %}z"}, {"b", "\n{{ \"s\" < 1 }}"});
  INCLUDE(
      "BAD_MANIFEST pack/age/main.wgsl.jinja:2:4: syntax: expected a value, found the end of the "
      "text",
      {MAIN, "{% include \"a\" %}\n{{ }}"}, {"a", "1\n2\n3\n"});
  INCLUDE("NOT_FOUND template: there is no file `pack/age/main.wgsl.jinja`", {"other", ""});
  assert_string_equal(template_render_pass(&world, 1, &quire_default_allocator),
                      "NOT_FOUND template: there is no file `pack/age/../outside.wgsl`");
  world.files[0] = (template_file){"pack/outside.wgsl", "fn f() {}"};
  assert_string_equal(
      template_render_pass(&world, 1, &quire_default_allocator),
      "@group(0) @binding(0) var<storage, read_write> work: array<f32>;\nfn f() {}");
  template_world_destroy(&world);
}

/* ---- declarations ---- */

#define DECLARATIONS                                                   \
  "struct Params { n: u32, scale: f32, _pad0: u32, _pad1: u32, }\n"    \
  "struct More { i: i32, _pad0: u32, _pad1: u32, _pad2: u32, }\n"      \
  "@group(0) @binding(0) var<storage, read> x: array<f16>;\n"          \
  "@group(0) @binding(1) var<storage, read_write> work: array<f32>;\n" \
  "@group(0) @binding(2) var<storage, read_write> y: array<f16>;\n"    \
  "@group(0) @binding(3) var<uniform> params: Params;\n"               \
  "@group(0) @binding(4) var<uniform> more: More;"

static void declarations(void **state) {
  (void)state;
  template_world world;
  template_world_create(&world);
  INCLUDE("enable f16;\n" DECLARATIONS "\nfn main() {}", {MAIN, "fn main() {}"});
  INCLUDE("enable f16;\n// here\n" DECLARATIONS "\nfn main() {}",
          {MAIN, "// here\n{{ env.wgsl.resourceDeclarations }}\nfn main() {}"});
  INCLUDE("// a\nenable f16;\n" DECLARATIONS "\nfn main() {}",
          {MAIN, "// a\nenable f16;\nfn main() {}"});
  INCLUDE("/* a /* b */ enable x; */ enable f16, g; requires r;\n" DECLARATIONS "\nfn main() {}",
          {MAIN, "/* a /* b */ enable x; */ enable f16, g; requires r;\nfn main() {}"});
  INCLUDE("enable f16;\ndiagnostic(off, x);\n" DECLARATIONS "\n\nenable_it();",
          {MAIN, "diagnostic(off, x);\n\nenable_it();"});
  INCLUDE("@group(0) @binding(0) var<storage> q: array<u32>;",
          {MAIN, "@group(0) @binding(0) var<storage> q: array<u32>;"});
  INCLUDE("enable f16;\n" DECLARATIONS "\n// @group(1)\n/* @group(2) */",
          {MAIN, "// @group(1)\n/* @group(2) */"});
  INCLUDE("enable f16;\nlet a = 1.5h;", {MAIN, SILENT "let a = 1.5h;"});
  INCLUDE("enable f16;\nlet a = vec2h();", {MAIN, SILENT "let a = vec2h();"});
  INCLUDE("enable f16;\nlet a = 1e-2h + 1.;", {MAIN, SILENT "let a = 1e-2h + 1.;"});
  INCLUDE("let a = 0x1f; // f16 1h", {MAIN, SILENT "let a = 0x1f; // f16 1h"});
  INCLUDE("let f16_count = half; let v2h = vecah;",
          {MAIN, SILENT "let f16_count = half; let v2h = vecah;"});
  template_world_destroy(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statements),   cmocka_unit_test(white_space), cmocka_unit_test(expressions),
      cmocka_unit_test(names),        cmocka_unit_test(errors),      cmocka_unit_test(includes),
      cmocka_unit_test(declarations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
