import type { SearchSource } from '../search-document.ts'

/** In characters. Models read a few hundred words at most, so a long description must not displace the rest. */
const CAPS = { name: 200, module: 160, description: 800, words: 240, parameters: 300 } as const
const DEPTH_CAP = 3

/**
 * The text of a tool for an embedding model: dotted name, title, description, aliases, tags, parameter names, side
 * effects, and the module's synonym groups that contain one of these words. One sentence each, the most telling
 * first.
 */
export function corpusText(source: SearchSource): string {
  const { id, name, title, description, aliases, tags, sideEffects, inputJson, module, moduleDescription } = source
  const mainText = toSpacedWords(
    [splitName(id || name), title, description, aliases.join(' '), tags.join(' ')].join(' '),
  )
  const matchingGroups = (source.synonyms ?? []).filter((group) =>
    group.some((word) => mainText.includes(toSpacedWords(word))),
  )
  const relatedWords = [...new Set(matchingGroups.flat())].filter((word) => !mainText.includes(toSpacedWords(word)))
  const parameters = new Set<string>()
  collectNames(inputJson, 0, parameters)
  return [
    truncate(`${id || name} (${splitName(id || name)})`, CAPS.name),
    title && splitName(title).toLowerCase() !== splitName(name).toLowerCase() ? truncate(title, CAPS.name) : '',
    truncate(description, CAPS.description),
    formatList('Also', aliases, CAPS.words),
    formatList('Like', relatedWords, CAPS.words),
    formatList('About', tags, CAPS.words),
    formatList('Takes', [...parameters].map(splitName), CAPS.parameters),
    formatList('Effects', sideEffects.map(splitName), CAPS.words),
    moduleDescription ? truncate(`${splitName(module)}: ${moduleDescription}`, CAPS.module) : '',
  ]
    .filter(Boolean)
    .map((part) => (/[.!?。！？]$/.test(part) ? part : `${part}.`))
    .join(' ')
}

/** `github__listIssues` as separate words, which is what models know: `github list Issues`. */
function splitName(name: string): string {
  return name
    .replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2')
    .replace(/[_.:/-]+/g, ' ')
    .trim()
}

const formatList = (label: string, words: readonly string[], cap: number): string =>
  words.length > 0 ? `${label}: ${truncate(words.join(', '), cap)}` : ''

function truncate(text: string, cap: number): string {
  const line = text.replace(/\s+/g, ' ').trim()
  // Never cuts a surrogate pair in half.
  return line.length > cap ? line.slice(0, cap).replace(/[\uD800-\uDBFF]$/, '') : line
}

/** The words between single spaces, so that only whole words are found. */
const toSpacedWords = (text: string): string =>
  ` ${(text.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) ?? []).join(' ')} `

function collectNames(schema: unknown, depth: number, names: Set<string>): void {
  if (depth > DEPTH_CAP || names.size > 60 || typeof schema !== 'object' || schema === null) return
  const { properties, items } = schema as { properties?: unknown; items?: unknown }
  if (typeof properties === 'object' && properties !== null)
    for (const [name, property] of Object.entries(properties)) {
      names.add(name)
      collectNames(property, depth + 1, names)
    }
  collectNames(items, depth + 1, names)
}
