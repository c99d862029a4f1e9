import { join } from 'node:path'
import { type PairSet, pageOf, readColumns, type Text, type Tool, type ToolSet, textOf } from './corpus.ts'
import { FIELDS, type Options, SOURCE_WEIGHTS } from './options.ts'
import type { Random } from './random.ts'
import { type Bag, bagOf, type Vocabulary } from './vocabulary.ts'

/** Two texts that belong together; examples of one group are never each other's negatives. */
export interface Example {
  readonly query: Bag
  readonly document: Bag
  readonly group: string
}

/** Examples of one origin, drawn anew every time. */
export interface Source {
  readonly name: string
  /** How often an epoch sees each example. */
  readonly weight: number
  readonly count: number
  draw(index: number): Example
  /** Examples of one cluster are alike: hard negatives of each other. */
  clusterOf(index: number): string
}

export interface Written {
  readonly tool: Tool
  readonly queries: readonly { readonly text: string; readonly language: string }[]
}

const HERE = 'training'

/** Queries that we wrote for tools of the MCP corpus: id, two English ones, a language, one in it. */
export function readWritten(tools: readonly Tool[]): Written[] {
  const byId = new Map(tools.map((tool) => [tool.line.id, tool]))
  return readColumns(join(HERE, 'queries.tsv')).flatMap(
    ([id = '', first = '', second = '', language = '', third = '']) => {
      const tool = byId.get(id)
      const queries = [
        { text: first, language: 'en' },
        { text: second, language: 'en' },
        { text: third, language },
      ]
      return tool ? [{ tool, queries: queries.filter(({ text }) => text !== '') }] : []
    },
  )
}

export const documentTexts = (tool: Tool): [Text, number][] => [
  [tool.name, FIELDS.name[0]],
  [tool.description, FIELDS.description[0]],
  [tool.parameters, FIELDS.parameters[0]],
  [tool.module, FIELDS.module[0]],
  [tool.context, FIELDS.context[0]],
]

export interface SourceData {
  readonly sets: readonly ToolSet[]
  readonly pairs: readonly PairSet[]
  readonly written: readonly Written[]
  /** Tools whose texts must not be seen: those that the model is measured on. */
  readonly isHeldOut: (tool: Tool) => boolean
  readonly isHeldOutQuery: (query: string) => boolean
}

export function createSources(data: SourceData, vocabulary: Vocabulary, options: Options, random: Random): Source[] {
  const keep = <T>(list: readonly T[], share: number): T[] => list.filter(() => random() < share)
  const thin = (text: Text): Text => (options.drop > 0 ? keep(text, 1 - options.drop) : text)
  const bag = (text: Text): Bag => bagOf([[text, 1]], vocabulary)
  const any = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
  const weightOf = (name: string, kind: string): number => SOURCE_WEIGHTS[name] ?? SOURCE_WEIGHTS[kind] ?? 1

  /** A tool as a document with parts missing, as real ones have them. */
  function documentBag(tool: Tool): Bag {
    const without = random()
    return bagOf(
      [
        [without > 0.9 ? [] : tool.name, FIELDS.name[0]],
        [thin(tool.description), FIELDS.description[0]],
        [without < 0.15 ? [] : thin(tool.parameters), FIELDS.parameters[0]],
        [without > 0.15 && without < 0.25 ? [] : tool.module, FIELDS.module[0]],
        [tool.context, FIELDS.context[0]],
      ],
      vocabulary,
    )
  }

  const groupOf = (set: string, tool: Tool): string =>
    // Servers copy each other's tools: those of one name are not told apart.
    set === 'mcp-corpus' ? `mcp:${tool.line.name.toLowerCase()}` : `${set}:${tool.key}`

  function labelled(
    name: string,
    weight: number,
    list: readonly { readonly query: Text; readonly tools: readonly Tool[]; readonly set: string }[],
  ): Source {
    return {
      name,
      weight,
      count: list.length,
      draw(index) {
        const { query, tools, set } = list[index] as (typeof list)[number]
        const tool = any(tools)
        return { query: bag(thin(query)), document: documentBag(tool), group: groupOf(set, tool) }
      },
      clusterOf: (index) => list[index]?.tools[0]?.line.server ?? '',
    }
  }

  function ofSet({ name, tools, queries }: ToolSet): Source {
    const byId = new Map(tools.filter((tool) => !data.isHeldOut(tool)).map((tool) => [tool.line.id, tool]))
    const list = queries.flatMap(({ query, relevant }) => {
      const found = relevant.flatMap((id) => byId.get(id) ?? [])
      return found.length > 0 && !data.isHeldOutQuery(query) ? [{ query: textOf(query), tools: found, set: name }] : []
    })
    return labelled(name, weightOf(name, 'labelled'), list)
  }

  /** Parts of a tool against its other parts. */
  function ofTools({ name, tools }: ToolSet): Source {
    const list = tools.filter((tool) => tool.description.length > 2 && !data.isHeldOut(tool))
    return {
      name: `${name}-tools`,
      weight: weightOf(`${name}-tools`, 'tools'),
      count: list.length,
      draw(index) {
        const tool = list[index] as Tool
        const group = groupOf(name, tool)
        const choice = random()
        const rest = tool.description.slice(tool.first.length)
        const { parameters, module } = tool
        const ends: [Text, number][] = [
          [parameters, FIELDS.parameters[0]],
          [module, FIELDS.module[0]],
        ]
        if (choice < 0.35)
          return { query: bag(tool.name), document: bagOf([[tool.description, 1], ...ends], vocabulary), group }
        if (choice < 0.75)
          return {
            query: bag(keep(tool.first, 0.75)),
            document: bagOf([[tool.name, FIELDS.name[0]], [rest, 1], ...ends], vocabulary),
            group,
          }
        if (choice < 0.9)
          return {
            query: bag([...keep(module, 0.8), ...keep(tool.name, 0.7)]),
            document: bagOf(
              [
                [tool.description, 1],
                [parameters, FIELDS.parameters[0]],
              ],
              vocabulary,
            ),
            group,
          }
        return { query: bag(keep(tool.description, 0.4)), document: bagOf(documentTexts(tool), vocabulary), group }
      },
      clusterOf: (index) => list[index]?.line.server ?? '',
    }
  }

  function ofPairs(
    name: string,
    weight: number,
    pairs: PairSet['pairs'],
    clusterOf: (group: string) => string,
  ): Source {
    return {
      name,
      weight,
      count: pairs.length,
      draw(index) {
        const { a, b, group } = pairs[index] as PairSet['pairs'][number]
        const turned = random() < 0.35
        return { query: bag(thin(turned ? b : a)), document: bag(thin(turned ? a : b)), group: `${name}:${group}` }
      },
      clusterOf: (index) => clusterOf(pairs[index]?.group ?? ''),
    }
  }

  function ofPairSet({ name, pairs }: PairSet): Source[] {
    const clusterOf = (group: string): string =>
      name === 'botocore' ? group.replace(/[A-Z].*/, '') : name.startsWith('tldr') ? pageOf(group) : ''
    if (name !== 'tldr_parallel') return [ofPairs(name, weightOf(name, name), pairs, clusterOf)]
    // There is ten times as much in some languages as in others: even them out a little.
    const languages = [...new Set(pairs.map(({ language }) => language))].sort()
    return languages.map((language) => {
      const some = pairs.filter((pair) => pair.language === language)
      return ofPairs(
        `${name}-${language}`,
        weightOf(name, name) * Math.min(3, Math.sqrt(6000 / some.length)),
        some,
        clusterOf,
      )
    })
  }

  /** Words and phrases in thirteen languages, each against English; and two or three words at once. */
  function ofLexicon(): Source[] {
    return ['lexicon', 'phrases'].flatMap((name) => {
      const [languages = [], ...rows] = readColumns(join(HERE, `${name}.tsv`))
      const cells = rows.map((row) =>
        row.map((cell) =>
          cell
            .split('|')
            .map((form) => form.trim())
            .filter(Boolean),
        ),
      )
      const pairs = cells.flatMap((row, index) =>
        row.slice(1).flatMap((forms) =>
          forms.flatMap((form) =>
            (row[0] ?? []).slice(0, 2).map((english) => ({
              a: textOf(form),
              b: textOf(english),
              group: `${index}`,
              language: '',
            })),
          ),
        ),
      )
      const single = ofPairs(
        name,
        weightOf(name, name),
        pairs.filter(({ a, b }) => a.length > 0 && b.length > 0),
        () => '',
      )
      if (name === 'phrases') return [single]
      const mix: Source = {
        name: 'mix',
        weight: weightOf('mix', 'mix'),
        count: 20_000,
        draw() {
          const language = 1 + Math.floor(random() * (languages.length - 1))
          const chosen = Array.from({ length: random() < 0.4 ? 3 : 2 }, () => Math.floor(random() * cells.length))
          const forms = chosen.map((row) => any(cells[row]?.[language] ?? []) ?? '')
          const english = chosen.map((row) => cells[row]?.[0]?.[0] ?? '')
          return {
            query: bag(textOf(forms.join(' '))),
            document: bag(textOf(english.join(' '))),
            group: `mix:${chosen.join('+')}`,
          }
        },
        clusterOf: () => '',
      }
      return [single, mix]
    })
  }

  function ofWritten(): Source[] {
    const learned = data.written.filter(({ tool }, index) => index % options.fold !== 0 && !data.isHeldOut(tool))
    const list = learned.flatMap(({ tool, queries }) =>
      queries.map(({ text, language }) => ({ query: textOf(text), tools: [tool], set: 'mcp-corpus', language })),
    )
    return [
      labelled(
        'written',
        weightOf('written', ''),
        list.filter(({ language }) => language === 'en'),
      ),
      labelled(
        'foreign',
        weightOf('foreign', ''),
        list.filter(({ language }) => language !== 'en'),
      ),
    ]
  }

  /** Servers as documents: what they are, what we wrote of them, their tools' names. */
  function ofServers(corpus: ToolSet): Source {
    const names = new Map<string, Text[]>()
    for (const tool of corpus.tools) names.set(tool.line.server, [...(names.get(tool.line.server) ?? []), tool.name])
    const list = readColumns(join(HERE, 'servers.tsv')).flatMap(([id = '', description = '', ...queries]) =>
      queries.map((query) => ({ id, description: textOf(description), query: textOf(query) })),
    )
    return {
      name: 'servers',
      weight: weightOf('servers', ''),
      count: list.length,
      draw(index) {
        const { id, description, query } = list[index] as (typeof list)[number]
        const tools = keep(names.get(id) ?? [], 0.5)
          .flat()
          .slice(0, 30)
        return {
          query: bag(thin(query)),
          document: bagOf(
            [
              [textOf(id, 8), FIELDS.name[0]],
              [thin(description), 1],
              [random() < 0.5 ? tools : [], 0.5],
            ],
            vocabulary,
          ),
          group: `server:${id}`,
        }
      },
      clusterOf: () => '',
    }
  }

  /** Users' questions that one or several endpoints of a REST API answer together. */
  function ofQuestions(set: ToolSet | undefined): Source {
    const byId = new Map(set?.tools.map((tool) => [tool.line.id, tool]))
    const list = readColumns(join(HERE, 'questions.tsv')).flatMap(([ids = '', question = '']) => {
      const tools = ids.split(',').flatMap((id) => byId.get(id) ?? [])
      return tools.length > 0 ? [{ query: textOf(question), tools, set: set?.name ?? '' }] : []
    })
    return labelled('questions', weightOf('questions', ''), list)
  }

  const corpus = data.sets.find(({ name }) => name === 'mcp-corpus')
  return [
    ...data.sets.filter(({ queries }) => queries.length > 0).map(ofSet),
    ...data.sets.map(ofTools),
    ...ofWritten(),
    ...(corpus ? [ofServers(corpus)] : []),
    ofQuestions(data.sets.find(({ name }) => name === 'toolbench')),
    ...ofLexicon(),
    ...data.pairs.flatMap(ofPairSet),
  ].filter(({ count, weight }) => count > 0 && weight > 0)
}
