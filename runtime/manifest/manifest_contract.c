/* The contract and the ids of its rules (docs/manifest-language.md 15). */
#include <string.h>

#include "manifest_loader.h"

static void load_rule_id(quire_loader *loader, const char *text, const quire_json_place *place,
                         const char **rule) {
  if (text == NULL) {
    return;
  }
  if (text[0] == '\0' || strlen(text) >= QUIRE_RULE_SIZE) {
    quire_loader_fault(loader, place, "must have 1 to %d characters", QUIRE_RULE_SIZE - 1);
    return;
  }
  *rule = quire_loader_copy(loader, text);
}

bool quire_load_status(quire_loader *loader, json_t *object, const quire_json_place *place,
                       quire_rule *rule) {
  quire_json_place rule_place = quire_json_member(place, "rule");
  quire_json_place status_place = quire_json_member(place, "status");
  rule->rule = "";
  rule->status = QUIRE_OK;
  load_rule_id(loader, quire_loader_string(loader, object, "rule", place), &rule_place,
               &rule->rule);
  const char *status = quire_loader_string(loader, object, "status", place);
  if (status == NULL) {
    return false;
  }
  for (int i = QUIRE_OK + 1; i <= QUIRE_INTERNAL; ++i) {
    if (strcmp(quire_status_name((quire_status)i), status) == 0) {
      rule->status = (quire_status)i;
      return true;
    }
  }
  quire_loader_fault(loader, &status_place, "`%.60s` is not the name of a status such as BAD_SHAPE",
                     status);
  return false;
}

static void load_subject(quire_loader *loader, json_t *json, const quire_json_place *place,
                         quire_manifest_contract *contract) {
  const char *subject = quire_loader_string(loader, json, "subject", place);
  if (subject == NULL) {
    return;
  }
  contract->subject = quire_loader_copy(loader, subject);
  if (quire_manifest_find_key(loader->manifest, subject) < 0 &&
      quire_manifest_find_attribute(loader->manifest, subject) < 0) {
    quire_json_place member = quire_json_member(place, "subject");
    quire_loader_fault(loader, &member, "`%.60s` is neither a tensor nor an attribute", subject);
  }
}

void quire_load_contract(quire_loader *loader) {
  static const char *const members[] = {"rule", "status", "subject", "require", NULL};
  quire_scope scope = quire_scope_kernel(loader);
  quire_json_place root = quire_json_root();
  quire_json_place place = quire_json_member(&root, "contract");
  json_t *list = json_object_get(loader->root, "contract");
  size_t count = quire_loader_list(loader, list, &place);
  quire_manifest_contract *contract = quire_loader_array(loader, count, sizeof *contract);
  if (contract == NULL) {
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    json_t *json = json_array_get(list, i);
    quire_json_place element = quire_json_element(&place, i);
    quire_json_place require = quire_json_member(&element, "require");
    contract[i].rule.rule = "";
    contract[i].subject = "";
    if (!quire_loader_object(loader, json, &element, members)) {
      continue;
    }
    for (size_t j = 0; members[j] != NULL; ++j) {
      if (json_object_get(json, members[j]) == NULL) {
        quire_loader_fault(loader, &element, "`%s` is missing", members[j]);
      }
    }
    quire_load_status(loader, json, &element, &contract[i].rule);
    load_subject(loader, json, &element, &contract[i]);
    json_t *clause = json_object_get(json, "require");
    contract[i].require = clause == NULL ? NULL : quire_loader_clause(&scope, clause, &require);
  }
  loader->manifest->contract = contract;
  loader->manifest->contract_count = count;
}

void quire_load_rules(quire_loader *loader) {
  /* In the order of quire_rule_kind. */
  static const char *const kinds[] = {"presence", "rank", "dtype", "shape", "limit", "alias", NULL};
  quire_json_place root = quire_json_root();
  quire_json_place place = quire_json_member(&root, "rules");
  json_t *json = json_object_get(loader->root, "rules");
  for (size_t i = 0; i < QUIRE_RULE_KIND_COUNT; ++i) {
    loader->manifest->rules[i] = "";
  }
  if (json == NULL || !quire_loader_object(loader, json, &place, kinds)) {
    return;
  }
  for (size_t i = 0; i < QUIRE_RULE_KIND_COUNT; ++i) {
    quire_json_place member = quire_json_member(&place, kinds[i]);
    load_rule_id(loader, quire_loader_string(loader, json, kinds[i], &place), &member,
                 &loader->manifest->rules[i]);
  }
}
