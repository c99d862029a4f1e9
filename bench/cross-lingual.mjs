// Queries in twelve languages for English tools, from translated pages about commands (tldr pages). Only pages that
// training keeps out are used: those whose path hashes (FNV-1a, 32 bits) to a multiple of ten.
//
// An English figure is fair when it differs in nothing but the language. Two ways to have one:
// - "page": the tool is a page, described by its English summary; the query is one of the page's examples, once in the
//   other language and once in English. Same tools, same right answers, no query repeats its tool's text.
// - "line": the tool is an English line, the query its translation. No English paraphrase exists, so the English query is
//   the line itself without every third word. That repeats the rest word for word, as no real query does: the English
//   figure is near its ceiling, and the share an underestimate.
// Command names look the same in every language, so tools are called t1, t2 … and summaries lose the name in front.
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'

const QUERIES_A_LANGUAGE = 300
const HELD_BACK = 10

async function readPairs(file) {
  const text = (await promisify(gunzip)(await readFile(file))).toString()
  return text.split('\n').filter(Boolean).map(JSON.parse)
}

const pageOf = ({ g }) => g.replace(/\d+$/, '')
const isSummary = ({ g }) => g.endsWith('.md')
/** `am: Android activity manager.` → `Android activity manager.` */
const withoutCommand = (summary, page) => {
  const command = page.replace(/^.*\//, '').replace(/\.md$/, '').replaceAll('-', ' ')
  const [head, ...rest] = summary.split(': ')
  return rest.length > 0 && head.toLowerCase().replaceAll('-', ' ') === command ? rest.join(': ') : summary
}
/** Translations keep the sentence with the link to the manual; English lines have lost it. */
const withoutLink = (text) => text.replace(/[^.。！？!?]*<https?:[^>]*>[.。]?/g, '').trim()
const withoutEveryThird = (text) =>
  text
    .split(/\s+/)
    .filter((_word, at) => at % 3 !== 2)
    .join(' ')

/**
 * @param folder with tldr.jsonl.gz and tldr_parallel.jsonl.gz
 * @param hash FNV-1a
 * @returns two sets, each with tools and, by language, queries in it and the same in English
 */
export async function crossLingualSets(folder, hash) {
  const [english, parallel] = await Promise.all(
    ['tldr', 'tldr_parallel'].map((name) => readPairs(`${folder}/${name}.jsonl.gz`)),
  )
  // A line that several pages have ("Display help") has no one right answer.
  const pagesOfLine = new Map()
  const note = (line, page) => pagesOfLine.set(line, (pagesOfLine.get(line) ?? new Set()).add(page))
  for (const pair of english) note(pair.a, pair.g)
  for (const pair of parallel) note(pair.b, pageOf(pair))
  const lines = []
  for (const pair of parallel) {
    const page = pageOf(pair)
    const text = withoutLink(pair.a)
    if (hash(page) % HELD_BACK === 0 && pagesOfLine.get(pair.b).size === 1 && text) lines.push({ ...pair, page, text })
  }
  return [pageSet(english, lines, hash), lineSet(lines, hash)]
}

function pageSet(english, lines, hash) {
  const tools = new Map()
  for (const { a, b, g } of english)
    if (hash(g) % HELD_BACK === 0 && !tools.has(g)) tools.set(g, toolOf(tools.size, b.startsWith(`${a}: `) ? '' : b, g))
  const usable = lines.filter((line) => !isSummary(line) && tools.has(line.page))
  return setOf('page', [...tools.values()], sample(usable, hash), (line) => [tools.get(line.page).id, line.b])
}

function lineSet(lines, hash) {
  const tools = new Map()
  const textOf = (line) => (isSummary(line) ? withoutCommand(line.b, line.page) : line.b)
  for (const line of lines)
    if (!tools.has(textOf(line))) tools.set(textOf(line), toolOf(tools.size, textOf(line), line.page))
  const english = (line) => [tools.get(textOf(line)).id, withoutEveryThird(textOf(line))]
  return setOf('line', [...tools.values()], sample(lines, hash), english)
}

const toolOf = (number, text, page) => ({
  id: `t${number + 1}`,
  server: 'shell',
  name: `t${number + 1}`,
  description: withoutCommand(text, page),
})

/** At most so many lines a language: those whose places hash lowest. */
function sample(lines, hash) {
  const byLanguage = new Map()
  for (const line of lines) byLanguage.set(line.l, [...(byLanguage.get(line.l) ?? []), line])
  for (const [language, of] of byLanguage) {
    const keyed = of.map((line) => ({ line, key: hash(`${language} ${line.g}`) })).sort((a, b) => a.key - b.key)
    byLanguage.set(
      language,
      keyed.slice(0, QUERIES_A_LANGUAGE).map(({ line }) => line),
    )
  }
  return byLanguage
}

function setOf(name, tools, byLanguage, english) {
  const queries = []
  for (const [language, lines] of [...byLanguage].sort(([a], [b]) => (a < b ? -1 : 1)))
    for (const line of lines) {
      const [id, text] = english(line)
      queries.push({ id: line.g, query: line.text, relevant: [id], lang: language })
      queries.push({ id: line.g, query: text, relevant: [id], lang: `${language} in English` })
    }
  return { name, tools, queries }
}
