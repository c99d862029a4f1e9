import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import type { Effect, Example } from '../core/tool.ts'
import { ASCII, wordsOf } from '../core/tool-names.ts'

const DESTRUCTIVE = new Set(
  'clean cleanup clear del delete destroy discard drop erase evict expunge flush kill nuke overwrite prune purge reboot remove reset restart revert revoke rm rmdir rollback shred shutdown terminate trash truncate uninstall unlink unpublish wipe'.split(
    ' ',
  ),
)
// Reading verbs. A tool counts as reading only if its server says so too.
const READS = new Set(
  'browse check compare count describe diff explain fetch find get history info inspect list lookup peek read retrieve search show stat stats status tree validate view whoami'.split(
    ' ',
  ),
)
// One of these anywhere in the name decides: `mark_as_read`, `read_write_all`.
const WRITES = new Set(
  'add alter append apply approve archive assign attach book cancel chmod chown close commit copy cp create deploy detach disable edit enable exec execute fill grant insert install invite invoke mark merge migrate mkdir modify move mv open patch post publish push put register reject rename reopen replace reply restore rotate run save send set start stop submit suspend sync toggle transfer trigger unlock update upload upsert write'.split(
    ' ',
  ),
)

/** Writing verbs that name a thing after `get` or `list`: `get_merge_request`, `list_workflow_run_jobs`. */
const NOUNS = new Set(['book', 'commit', 'invite', 'merge', 'patch', 'post', 'run'])
const JOINS = new Set(['and', 'or', 'then'])

const RANK: Readonly<Record<Effect, number>> = { read: 0, write: 1, destructive: 2 }
const pickWorse = (a: Effect, b: Effect): Effect => (RANK[a] >= RANK[b] ? a : b)

/**
 * The effect of an upstream tool, from its name and annotations. A name reads if it contains a reading verb and no
 * writing or destructive one. A tool reads if its name reads and its server declares `readOnlyHint: true`; other
 * annotations can only make it worse, unless the operator trusts them. A tool without annotations counts as writing.
 * @param byName effect that the name says, as of `effectByName`
 */
export function guessEffect(byName: Effect, annotations: Json | undefined, trustHints: boolean): Effect {
  if (!annotations) return pickWorse(byName, 'write')
  const readOnly = annotations['readOnlyHint']
  const byHints: Effect = readOnly === true ? 'read' : annotations['destructiveHint'] === true ? 'destructive' : 'write'
  if (trustHints && (readOnly !== undefined || annotations['destructiveHint'] !== undefined)) return byHints
  // One library sends the protocol's defaults for every tool, which says nothing about `excel_read_sheet`.
  if (byName === 'read' && isDefault(annotations)) return 'write'
  return pickWorse(byName, byHints)
}

const DEFAULTS = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true }
const isDefault = (annotations: Json): boolean =>
  Object.entries(DEFAULTS).every(([hint, value]) => annotations[hint] === value)

export function effectByName(name: string): Effect {
  // Splits finer than for display, so that neither capitals nor digits hide a verb: `getDELETEUser`, `list_wipe2`.
  const separated = ASCII.test(name)
    ? name.replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    : name.replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
  const words = wordsOf(separated.replaceAll(/\d+/g, ' '))
  if (words.some((word) => DESTRUCTIVE.has(word))) return 'destructive'
  const hasNouns = (words[0] === 'get' || words[0] === 'list') && !words.some((word) => JOINS.has(word))
  const writes = words.some((word) => WRITES.has(word) && !(hasNouns && NOUNS.has(word)))
  return words.some((word) => READS.has(word)) && !writes ? 'read' : 'write'
}

// First the English words that models use instead of the verb, then French ones.
const VERBS: Readonly<Record<string, readonly string[]>> = {
  create: ['add', 'new', 'make', 'créer', 'ajouter'],
  add: ['create', 'insert', 'ajouter'],
  delete: ['remove', 'erase', 'supprimer', 'effacer'],
  remove: ['delete', 'supprimer', 'retirer'],
  get: ['fetch', 'show', 'obtenir', 'afficher'],
  fetch: ['get', 'download', 'récupérer'],
  list: ['show all', 'enumerate', 'lister'],
  search: ['find', 'look up', 'chercher', 'rechercher'],
  find: ['search', 'trouver', 'chercher'],
  read: ['open', 'show', 'lire'],
  write: ['save', 'écrire', 'enregistrer'],
  update: ['edit', 'change', 'modifier', 'mettre à jour'],
  edit: ['update', 'change', 'modifier'],
  send: ['post', 'envoyer'],
  move: ['rename', 'déplacer'],
  run: ['execute', 'lancer', 'exécuter'],
  execute: ['run', 'exécuter'],
}

/** The words of a tool's name with another verb, in English and French. Empty if the name has no common verb. */
export function phrasesWithOtherVerbs(name: string): readonly string[] {
  const words = wordsOf(name)
  const at = words.findIndex((word) => Object.hasOwn(VERBS, word))
  const others = VERBS[words[at] ?? '']
  if (at === -1 || at > 1 || !others) return []
  const rest = words.slice(at + 1).join(' ')
  return others.map((verb) => (rest ? `${verb} ${rest}` : verb))
}

/** An example call with a value for every required parameter, from defaults, examples and types. */
export function exampleOf(schema: Json): Example {
  const properties = asRecord(schema['properties'])
  const required = Array.isArray(schema['required']) ? schema['required'].slice(0, 12) : []
  const entries = required
    .filter((name): name is string => typeof name === 'string' && name !== '__proto__')
    .map((name) => [name, createSample(Object.hasOwn(properties, name) ? properties[name] : undefined, name, 0)])
  return { input: Object.fromEntries(entries) as Json }
}

function createSample(schema: unknown, name: string, depth: number): unknown {
  if (!isRecord(schema)) return `<${name}>`
  if (schema['const'] !== undefined) return schema['const']
  if (schema['default'] !== undefined) return schema['default']
  for (const key of ['examples', 'enum']) {
    const values = schema[key]
    if (Array.isArray(values) && values.length > 0) return values[0]
  }
  const variants = schema['anyOf'] ?? schema['oneOf']
  if (Array.isArray(variants) && depth < 3) return createSample(variants[0], name, depth + 1)
  const type = Array.isArray(schema['type']) ? schema['type'][0] : schema['type']
  if (type === 'integer' || type === 'number') return typeof schema['minimum'] === 'number' ? schema['minimum'] : 1
  if (type === 'boolean') return true
  if (type === 'array') return depth < 3 ? [createSample(schema['items'], name, depth + 1)] : []
  if (type === 'object') return depth < 3 ? exampleOf(schema).input : {}
  return `<${name}>`
}
