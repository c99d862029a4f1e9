import { isAbsolute, resolve } from 'node:path'
import { createPaths, type Paths, z } from 'pegboard'
import { isInside, ownFolders } from '../_folders.ts'

/** Filled in by Pegboard; not for people. */
const variable = (name: string) => z.string().default(`{{env.${name}:-}}`)
const UNSET = 'unset'
const seconds = z.number().positive().max(300)

export const CATEGORIES = ['text', 'image', 'video', 'news', 'papers', 'code', 'files', 'music'] as const
export type Category = (typeof CATEGORIES)[number]

const MIB = 1024 * 1024

const McpSearch = z.strictObject({
  tool: z.string().min(3).describe('A tool of a configured server, such as "felo.search".'),
  query: z.string().min(1).default('query').describe('Its parameter for what to look for.'),
  count: z.string().min(1).optional().describe('Its parameter for how many, where it has one.'),
  arguments: z.record(z.string(), z.unknown()).default({}).describe('What else it is called with.'),
  categories: z.array(z.enum(CATEGORIES)).min(1).default(['text']).describe('What it finds.'),
})

const Search = z.strictObject({
  order: z
    .array(z.string())
    .default(['brave', 'searxng', 'duckduckgo', 'mcp'])
    .describe('Engines in the order they are asked: brave, searxng, duckduckgo, mcp.'),
  brave_api_key: variable('BRAVE_API_KEY').describe('Key of the Brave Search API; default the variable BRAVE_API_KEY.'),
  brave_url: z.string().default('https://api.search.brave.com').describe('Where that API is.'),
  searxng_url: variable('SEARXNG_BASE_URL').describe('Address of a SearXNG; default the variable SEARXNG_BASE_URL.'),
  ddg_base_url: z
    .string()
    .default('https://html.duckduckgo.com/html/')
    .describe('The pages of DuckDuckGo without scripts; empty: not used.'),
  mcp: McpSearch.optional().describe('An MCP server that searches.'),
  safesearch: z.enum(['off', 'moderate', 'strict']).default('moderate').describe('What engines leave out.'),
  language: z.string().max(20).default('').describe('Language of results, such as "en"; empty: as the engine has it.'),
  timeout: seconds.default(10).describe('Seconds an engine may take.'),
})

const Fetch = z.strictObject({
  allow_private_network: z
    .boolean()
    .default(false)
    .describe('Private networks and this machine may be read. FETCH_URL_ALLOW_PRIVATE_NETWORK beats it.'),
  engine_order: z
    .union([z.string(), z.array(z.string())])
    .default(['crawl4ai', 'mcp_fetch'])
    .describe(
      'Engines in the order they are asked: crawl4ai, mcp_fetch. FETCH_URL_ENGINE_ORDER beats it, also when it is empty.',
    ),
  crawl4ai_base_url: z.string().default('').describe('Address of a Crawl4AI server. CRAWL4AI_BASE_URL beats it.'),
  crawl4ai_token: variable('CRAWL4AI_TOKEN').describe('Its token; default the variable CRAWL4AI_TOKEN.'),
  crawl4ai_filter: z.enum(['fit', 'raw']).default('fit').describe('What it keeps of a page: the content, or all.'),
  mcp_tool: z
    .string()
    .min(3)
    .optional()
    .describe('A tool of a configured server that does the work of mcp_fetch, such as "fetch.fetch".'),
  max_bytes: z
    .int()
    .min(1)
    .max(50 * MIB)
    .default(5 * MIB)
    .describe('Bytes of a page.'),
  max_length: z.int().min(100).max(1_000_000).default(50_000).describe('Characters that one call gives at most.'),
  robots: z.enum(['ignore', 'obey']).default('ignore').describe('Whether what a site says in robots.txt is heeded.'),
  max_redirects: z.int().min(0).max(10).default(5).describe('Redirects that are followed.'),
  timeout: seconds.default(30).describe('Seconds a page may take.'),
})

/** A login for some addresses, which a model can name and never sees. */
export const AuthProfile = z.strictObject({
  secret: z.string().min(1).describe('What is sent; write ${NAME}.'),
  url_prefixes: z.array(z.string().min(8)).min(1).describe('The only addresses it is sent to, by their beginnings.'),
  methods: z
    .array(z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']))
    .default(['GET'])
    .describe('What may be done with it.'),
  header: z
    .string()
    .regex(/^[A-Za-z0-9-]+$/)
    .default('Authorization')
    .describe('The header that has it.'),
  format: z
    .enum(['raw', 'bearer', 'basic'])
    .default('bearer')
    .describe('How it is written there; basic: "name:password".'),
  allow_headers: z.array(z.string()).default([]).describe('Headers that a model may set beside it; default none.'),
  follow_redirects: z.boolean().default(false).describe('Follow redirects within the same origin.'),
})
export type AuthProfile = z.infer<typeof AuthProfile>

const UrlFetch = z.strictObject({
  guard: z
    .strictObject({
      allowed_url_prefixes: z
        .array(z.string())
        .default(['https://', 'http://'])
        .describe('Addresses that may be asked for, by their beginnings; none: nothing may.'),
      follow_redirects: z.boolean().default(false).describe('Follow up to three redirects within the same origin.'),
    })
    .prefault({})
    .describe('Where it may go, beside allow_private_network.'),
  secrets: z
    .strictObject({
      enabled: z.boolean().default(false).describe('Logins may be used.'),
      allow_profiles: z.array(z.string()).default([]).describe('Which of auth_profiles may be used.'),
    })
    .prefault({})
    .describe('Whether logins may be used.'),
  auth_profiles: z.record(z.string(), AuthProfile).default({}).describe('Logins by name.'),
  max_bytes: z
    .int()
    .min(1)
    .max(50 * MIB)
    .default(MIB / 2)
    .describe('Bytes of an answer that a model is shown.'),
  max_bytes_download: z
    .int()
    .min(1)
    .default(100 * MIB)
    .describe('Bytes of a file that is saved.'),
  file_cache_dir: z.string().min(1).default('{{cache_dir}}/files').describe('The folder that download_path lies in.'),
  denied_paths: z.array(z.string().min(1)).default([]).describe('What in it is never written.'),
  timeout: seconds.default(30).describe('Seconds a request may take, unless it asks for other.'),
})

/** Unknown keys are refused: a misspelt guard must not leave something open. */
export const Config = z.strictObject({
  access: z
    .enum(['none', 'read', 'write'])
    .default('none')
    .describe('Which tools are there: none, those that search and read, or url_fetch, too.'),
  search: Search.prefault({}).describe('Engines of web_search.'),
  fetch: Fetch.prefault({}).describe('How fetch_url reads pages.'),
  url_fetch: UrlFetch.prefault({}).describe('What url_fetch may do.'),
  health_seconds: z.number().min(0).max(3600).default(30).describe('How long an engine that failed is left alone.'),
  user_agent: z
    .string()
    .min(1)
    .default('{{user_agent}}')
    .describe('What requests say they come from; default services.fetch.userAgent.'),
  ...ownFolders,
  env_allow_private_network: variable('FETCH_URL_ALLOW_PRIVATE_NETWORK').describe('Filled in by Pegboard.'),
  // An empty order is one: nobody but ours.
  env_engine_order: z.string().default(`{{env.FETCH_URL_ENGINE_ORDER-${UNSET}}}`).describe('Filled in by Pegboard.'),
  env_crawl4ai_base_url: variable('CRAWL4AI_BASE_URL').describe('Filled in by Pegboard.'),
})

export type Settings = z.infer<typeof Config>

export const SETTING = 'modules.web.config'
/** As whoever reads a refusal knows it. */
export const PRIVATE_SWITCH = `FETCH_URL_ALLOW_PRIVATE_NETWORK=false (or ${SETTING}.fetch.allow_private_network)`

interface View {
  readonly config: Settings
}
export const reads = ({ config }: View): true | string =>
  config.access !== 'none' || `set ${SETTING}.access to "read" or "write"`
export const writes = ({ config }: View): true | string =>
  config.access === 'write' || `set ${SETTING}.access to "write"`

export const allowsPrivate = ({ fetch, env_allow_private_network: said }: Settings): boolean =>
  said === '' ? fetch.allow_private_network : /^(?:true|1|yes|on)$/i.test(said.trim())

export const crawl4aiUrl = ({ fetch, env_crawl4ai_base_url: said }: Settings): string =>
  (said || fetch.crawl4ai_base_url).trim().replace(/\/+$/, '')

/** Names that engines are asked in, and those nobody knows. What reads without any other server is always among them. */
export function readingOrder({ fetch, env_engine_order: said }: Settings) {
  const given = said === UNSET ? fetch.engine_order : said
  const names = (typeof given === 'string' ? given.split(',') : given).map((name) => name.trim()).filter(Boolean)
  return inOrder([...names, 'mcp_fetch'], ['crawl4ai', 'mcp_fetch'])
}

export const searchOrder = ({ search }: Settings) => inOrder(search.order, ['brave', 'searxng', 'duckduckgo', 'mcp'])

function inOrder<Name extends string>(given: readonly string[], known: readonly Name[]) {
  const isKnown = (name: string): name is Name => (known as readonly string[]).includes(name)
  return { order: [...new Set(given.filter(isKnown))], unknown: given.filter((name) => !isKnown(name)) }
}

/** The guarded way to the folder of downloads. */
export function downloadsOf({ url_fetch, workspace, state_dir, config_file, modules_dir }: Settings): {
  readonly base: string
  readonly paths: Paths
} {
  const base = isAbsolute(url_fetch.file_cache_dir)
    ? url_fetch.file_cache_dir
    : resolve(workspace, url_fetch.file_cache_dir)
  // With PEGBOARD_STATE_DIR alone the cache lies in the state folder: a part of that may be given, the whole of it never.
  const holdsState = isInside(resolve(state_dir), base)
  const paths = createPaths({
    roots: [base],
    denied: [...url_fetch.denied_paths, config_file, ...(holdsState ? [state_dir] : [])],
    denyNames: ['config.yaml', 'mcp.config.json', '.env'],
    fixed: [state_dir, config_file, '**/config.yaml', '**/mcp.config.json'],
    protected: [modules_dir],
    setting: `${SETTING}.url_fetch`,
  })
  return { base, paths }
}
