import { defineModule, ToolError, type ToolModule, z } from 'pegboard'
import { unavailable } from '../_errors.ts'
import { createJsonFile } from '../_json-file.ts'

const SETTING = 'modules.archives.config'
const MISSING_QUERY = 'external_archives needs a "query" arg with a few words of what is looked for'
const wordList = (...defaults: string[]) => z.array(z.string().min(1)).default(defaults)

const Redirect = z.strictObject({
  names: wordList('synchronet', 'sbbs').describe('Names of the software of the host.'),
  terms: wordList(
    'mqtt',
    'config',
    'configure',
    'configuration',
    'install',
    'installing',
    'setup',
    'upgrade',
    'compile',
    'scfg',
    'sbbsctrl',
    'ini',
    'javascript',
    'baja',
    'binkp',
    'ftp',
    'ssh',
    'telnet',
    'websocket',
    'nntp',
    'smtp',
    'imap',
    'docker',
    'tls',
    'certificate',
  ).describe('Words that make a query a question about running it.'),
  wiki: z.string().default('https://wiki.synchro.net/').describe('Address of the manual for such questions.'),
})

const Config = z.strictObject({
  enabled: z.boolean().default(false).describe('Enable the tool.'),
  index_file: z.string().min(1).optional().describe('Your own index instead of the included one (absolute path).'),
  redirect: Redirect.prefault({}).describe('Questions for the manual instead of the archives.'),
})

const Query = z.object({
  query: z
    .string({ error: () => MISSING_QUERY })
    .max(500)
    .describe('Words to look for: a person, a program, a game, a network, an event.'),
  limit: z.int().min(1).max(10).default(5).describe('Maximum number of pages.'),
})

const Hits = z.object({
  query: z.string(),
  count: z.int(),
  hits: z.array(z.object({ url: z.string(), summary: z.string(), tags: z.array(z.string()) })),
  note: z.string().optional(),
})

const MAX_TAGS = 5

/** State is created here, so that a reloaded or second instance has its own. */
function archives(): ToolModule<unknown> {
  const files = createJsonFile()
  return defineModule({
    name: 'archives',
    description: 'A curated offline index of public archives about the history of bulletin board systems.',
    config: Config,
    enabled: ({ config }) => config.enabled || `set ${SETTING}.enabled to true`,
    readOnly: true,
    synonyms: [['archive', 'history', 'archives', 'histoire', 'historia', 'Geschichte']],
    promptSection: ({ nameOf }) => {
      const name = nameOf('archives.external_archives')
      return name === undefined
        ? undefined
        : {
            priority: 40,
            text: `Before you answer a question about the history of bulletin boards, call ${name} and cite its results.`,
          }
    },
    tools: {
      external_archives: {
        title: 'Find BBS history',
        description:
          'Find web pages about BBS history in a curated index. Call it first, before answering any question about BBS history: people, board software, door games, networks, the art and hacking scenes, events and dates. Cite the urls. Do not use it for individual boards or whether one is up, nor for how to run board software.',
        aliases: [
          'bbs history',
          'textfiles',
          'fidonet history',
          'histoire des bbs',
          'historia de las bbs',
          'BBS-Geschichte',
        ],
        tags: ['bbs', 'history', 'archive', 'textfiles', 'documentary'],
        input: Query,
        output: Hits,
        effect: 'read',
        sideEffects: ['none'],
        examples: [
          { input: { query: 'fidonet history' } },
          { input: { query: 'ward christensen first bbs 1978', limit: 3 } },
        ],
        async run({ query, limit }, { config }) {
          const { parseEntries, findEntries, isForManual, termsOf } = await import('./search.ts')
          if (query.trim() === '') throw new ToolError(MISSING_QUERY, { code: 'E_VALIDATION' })
          const noHits = (note: string) => ({ query, count: 0, hits: [], note })
          const { redirect, index_file } = config
          if (isForManual(query, redirect))
            return noHits(`This question is about running the software of this board: see ${redirect.wiki}`)
          const entries =
            index_file === undefined
              ? (await import('./entries.ts')).entries
              : parseEntries(await files.read(index_file))
          if (entries === undefined)
            throw unavailable('external_archives index unavailable.', `The operator checks ${SETTING}.index_file.`)
          const terms = termsOf(query)
          if (terms.length === 0)
            return noHits('The query has no specific word. Name a person, program, game, network or event.')
          const matches = findEntries(entries, terms)
          if (matches.length === 0) return noHits('No entry matches. Say so; do not make up an address.')
          const hits = matches
            .slice(0, limit)
            .map(({ url, summary, tags }) => ({ url, summary, tags: tags.slice(0, MAX_TAGS) }))
          return { query, count: hits.length, hits }
        },
      },
    },
  }) as ToolModule<unknown>
}

export default archives()
