#include "manifest_json.h"

#include <string.h>

quire_json_place quire_json_root(void) {
  quire_json_place place = {NULL, NULL, 0};
  return place;
}

quire_json_place quire_json_member(const quire_json_place *parent, const char *key) {
  quire_json_place place = {parent, key, 0};
  return place;
}

quire_json_place quire_json_element(const quire_json_place *parent, size_t index) {
  quire_json_place place = {parent, NULL, index};
  return place;
}

/* Manifests nest at most 32 deep (docs/manifest-language.md 12), and so do places. */
enum { deepest_place = 40 };

static size_t list_places(const quire_json_place *place, const quire_json_place **places) {
  size_t count = 0;
  for (; place != NULL && place->parent != NULL && count < deepest_place; place = place->parent) {
    places[count++] = place;
  }
  return count;
}

static int is_plain_key(const char *key) {
  for (const char *c = key; *c != '\0'; ++c) {
    int plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                *c == '_' || *c == '$' || *c == '-';
    if (!plain) {
      return 0;
    }
  }
  return key[0] != '\0';
}

void quire_json_write_path(quire_text *text, const quire_json_place *place) {
  const quire_json_place *places[deepest_place];
  quire_text_put(text, "$");
  for (size_t i = list_places(place, places); i-- > 0;) {
    const char *key = places[i]->key;
    if (key == NULL) {
      quire_text_format(text, "[%zu]", places[i]->index);
    } else if (is_plain_key(key)) {
      quire_text_format(text, ".%s", key);
    } else {
      quire_text_put(text, "[");
      quire_text_json_string(text, key, strlen(key));
      quire_text_put(text, "]");
    }
  }
}

/* ---- the locator ---- */

typedef struct quire_scanner {
  const char *text;
  size_t length;
  size_t at;
} quire_scanner;

static void skip_blanks(quire_scanner *scanner) {
  while (scanner->at < scanner->length &&
         memchr(" \t\r\n", scanner->text[scanner->at], 4) != NULL) {
    ++scanner->at;
  }
}

static char peek(quire_scanner *scanner) {
  skip_blanks(scanner);
  return scanner->at < scanner->length ? scanner->text[scanner->at] : '\0';
}

static void skip_string(quire_scanner *scanner) {
  for (++scanner->at; scanner->at < scanner->length; ++scanner->at) {
    char c = scanner->text[scanner->at];
    if (c == '\\') {
      ++scanner->at;
    } else if (c == '"') {
      ++scanner->at;
      return;
    }
  }
}

/* Past a value: to the `,`, `]` or `}` behind it. */
static void skip_value(quire_scanner *scanner) {
  size_t nesting = 0;
  while (scanner->at < scanner->length) {
    char c = scanner->text[scanner->at];
    if (c == '"') {
      skip_string(scanner);
      continue;
    }
    if (nesting == 0 && (c == ',' || c == ']' || c == '}')) {
      return;
    }
    nesting += c == '[' || c == '{' ? 1 : 0;
    nesting -= c == ']' || c == '}' ? 1 : 0;
    ++scanner->at;
  }
}

/* At the key of an object's member: is it `key`? Moves to its value. Keys with escapes are not
 * found. */
static int read_key(quire_scanner *scanner, const char *key) {
  size_t begin = scanner->at + 1;
  skip_string(scanner);
  size_t length = scanner->at > begin ? scanner->at - 1 - begin : 0;
  int found = strlen(key) == length && memcmp(scanner->text + begin, key, length) == 0;
  if (peek(scanner) == ':') {
    ++scanner->at;
  }
  skip_blanks(scanner);
  return found;
}

/* Moves from a container to one of its values; returns where the member or element begins, or 0. */
static size_t descend(quire_scanner *scanner, const quire_json_place *place) {
  char open = peek(scanner);
  if (open != (place->key == NULL ? '[' : '{')) {
    return 0;
  }
  ++scanner->at;
  for (size_t index = 0; scanner->at < scanner->length; ++index) {
    char c = peek(scanner);
    size_t begin = scanner->at;
    if (c == ']' || c == '}' || c == '\0' || (place->key != NULL && c != '"')) {
      return 0;
    }
    if (place->key == NULL ? index == place->index : read_key(scanner, place->key)) {
      return begin;
    }
    skip_value(scanner);
    if (peek(scanner) == ',') {
      ++scanner->at;
    }
  }
  return 0;
}

size_t quire_json_locate(const char *text, size_t length, const quire_json_place *place) {
  const quire_json_place *places[deepest_place];
  quire_scanner scanner = {text, length, 0};
  skip_blanks(&scanner);
  size_t found = scanner.at;
  for (size_t i = list_places(place, places); i-- > 0;) {
    size_t begin = descend(&scanner, places[i]);
    if (begin == 0) {
      break;
    }
    found = begin;
  }
  return found;
}

size_t quire_json_line(const char *text, size_t offset) {
  size_t line = 1;
  for (size_t i = 0; i < offset; ++i) {
    line += text[i] == '\n' ? 1 : 0;
  }
  return line;
}

size_t quire_json_nesting(const char *text, size_t length) {
  quire_scanner scanner = {text, length, 0};
  size_t nesting = 0;
  size_t deepest = 0;
  while (scanner.at < length) {
    char c = text[scanner.at];
    if (c == '"') {
      skip_string(&scanner);
      continue;
    }
    if (c == '[' || c == '{') {
      ++nesting;
      deepest = nesting > deepest ? nesting : deepest;
    } else if ((c == ']' || c == '}') && nesting > 0) {
      --nesting;
    }
    ++scanner.at;
  }
  return deepest;
}
