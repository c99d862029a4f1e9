import { isAbsolute, resolve } from 'node:path'
import { type Paths, z } from 'pegboard'
import { access, accessChecks, stringList, userAgent } from '../_access.ts'
import { cacheFolder, cachePaths, ownFolders } from '../_folders.ts'

/** Filled in by Pegboard; users do not set it. */
const envVariable = (name: string) => z.string().default(`{{env.${name}:-}}`)
const UNSET = 'unset'
const seconds = z.number().positive().max(300)

export const CATEGORIES = ['text', 'image', 'video', 'news', 'papers', 'code', 'files', 'music'] as const
export type Category = (typeof CATEGORIES)[number]

const MIB = 1024 * 1024

const McpSearch = z.strictObject({
  tool: z.string().min(3).describe('Tool of a configured server, such as "felo.search".'),
  query: z.string().min(1).default('query').describe('Name of its query parameter.'),
  count: z.string().min(1).optional().describe('Name of its count parameter, if any.'),
  arguments: z.record(z.string(), z.unknown()).default({}).describe('More arguments for it.'),
  categories: z.array(z.enum(CATEGORIES)).min(1).default(['text']).describe('Categories it can find.'),
})

const Search = z.strictObject({
  order: z
    .array(z.string())
    .default(['brave', 'searxng', 'duckduckgo', 'mcp'])
    .describe('Engines in order: brave, searxng, duckduckgo, mcp.'),
  brave_api_key: envVariable('BRAVE_API_KEY').describe('API key of Brave Search; default the variable BRAVE_API_KEY.'),
  brave_url: z.string().default('https://api.search.brave.com').describe('Address of that API.'),
  searxng_url: envVariable('SEARXNG_BASE_URL').describe('Address of a SearXNG; default the variable SEARXNG_BASE_URL.'),
  ddg_base_url: z
    .string()
    .default('https://html.duckduckgo.com/html/')
    .describe("Address of DuckDuckGo's HTML search; empty disables it."),
  mcp: McpSearch.optional().describe('An MCP server that searches.'),
  safesearch: z.enum(['off', 'moderate', 'strict']).default('moderate').describe('Safe search level.'),
  language: z
    .string()
    .max(20)
    .default('')
    .describe('Language of results, such as "en"; empty uses the engine\'s default.'),
  timeout: seconds.default(10).describe('Timeout of an engine (seconds).'),
})

const Fetch = z.strictObject({
  allow_private_network: z
    .boolean()
    .default(false)
    .describe(
      'Allow private networks and this machine; link-local addresses and cloud metadata never. FETCH_URL_ALLOW_PRIVATE_NETWORK overrides it.',
    ),
  engine_order: z
    .union([z.string(), z.array(z.string())])
    .default(['crawl4ai', 'mcp_fetch'])
    .describe('Readers in order: crawl4ai, mcp_fetch. FETCH_URL_ENGINE_ORDER overrides it, even if empty.'),
  crawl4ai_base_url: z.string().default('').describe('Address of a Crawl4AI server. CRAWL4AI_BASE_URL overrides it.'),
  crawl4ai_token: envVariable('CRAWL4AI_TOKEN').describe('Its token; default the variable CRAWL4AI_TOKEN.'),
  crawl4ai_filter: z
    .enum(['fit', 'raw'])
    .default('fit')
    .describe('What to keep of a page: fit (content) or raw (all).'),
  mcp_tool: z
    .string()
    .min(3)
    .optional()
    .describe('Tool of a configured server that replaces mcp_fetch, such as "fetch.fetch".'),
  max_bytes: z
    .int()
    .min(1)
    .max(50 * MIB)
    .default(5 * MIB)
    .describe('Maximum bytes of a page.'),
  max_length: z.int().min(100).max(1_000_000).default(50_000).describe('Maximum characters of one result.'),
  robots: z.enum(['ignore', 'obey']).default('ignore').describe('Whether to follow robots.txt.'),
  max_redirects: z.int().min(0).max(10).default(5).describe('Maximum number of redirects.'),
  timeout: seconds.default(30).describe('Timeout of a page (seconds).'),
})

/** A login for some addresses. A model can name it but never sees it. */
export const AuthProfile = z.strictObject({
  secret: z.string().min(1).describe('The secret; use ${NAME}.'),
  url_prefixes: z.array(z.string().min(8)).min(1).describe('Prefixes of the only addresses that get it.'),
  methods: z
    .array(z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']))
    .default(['GET'])
    .describe('Allowed methods.'),
  header: z
    .string()
    .regex(/^[A-Za-z0-9-]+$/)
    .default('Authorization')
    .describe('Header that carries it.'),
  format: z
    .enum(['raw', 'bearer', 'basic'])
    .default('bearer')
    .describe('Format in the header; basic: "name:password".'),
  allow_headers: z.array(z.string()).default([]).describe('Headers that a model can also set; default none.'),
  follow_redirects: z.boolean().default(false).describe('Follow redirects within the same origin.'),
})
export type AuthProfile = z.infer<typeof AuthProfile>

const UrlFetch = z.strictObject({
  guard: z
    .strictObject({
      allowed_url_prefixes: z
        .array(z.string())
        .default(['https://', 'http://'])
        .describe('Allowed addresses by prefix; an empty list allows none.'),
      follow_redirects: z.boolean().default(false).describe('Follow up to three redirects within the same origin.'),
    })
    .prefault({})
    .describe('Allowed addresses, beside allow_private_network.'),
  secrets: z
    .strictObject({
      enabled: z.boolean().default(false).describe('Allow logins.'),
      allow_profiles: z.array(z.string()).default([]).describe('Allowed entries of auth_profiles.'),
    })
    .prefault({})
    .describe('Which logins are allowed.'),
  auth_profiles: z.record(z.string(), AuthProfile).default({}).describe('Logins by name.'),
  max_bytes: z
    .int()
    .min(1)
    .max(50 * MIB)
    .default(MIB / 2)
    .describe('Maximum bytes of a response shown to a model.'),
  max_bytes_download: z
    .int()
    .min(1)
    .default(100 * MIB)
    .describe('Maximum bytes of a saved file.'),
  file_cache_dir: cacheFolder.describe('Folder for download_path.'),
  denied_paths: stringList('Paths in it that are never written.'),
  timeout: seconds.default(30).describe('Default timeout of a request (seconds).'),
})

/** Unknown keys are rejected, so that a misspelled guard does not leave something open. */
export const Config = z.strictObject({
  access: access('Tools to enable: none, those that search and read, or url_fetch too.'),
  search: Search.prefault({}).describe('Engines of web_search.'),
  fetch: Fetch.prefault({}).describe('Settings of fetch_url.'),
  url_fetch: UrlFetch.prefault({}).describe('Settings of url_fetch.'),
  health_seconds: z.number().min(0).max(3600).default(30).describe('Seconds before a failed engine is tried again.'),
  user_agent: userAgent,
  ...ownFolders,
  env_allow_private_network: envVariable('FETCH_URL_ALLOW_PRIVATE_NETWORK').describe('Filled in by Pegboard.'),
  // An empty value means: only the built-in engine.
  env_engine_order: z.string().default(`{{env.FETCH_URL_ENGINE_ORDER-${UNSET}}}`).describe('Filled in by Pegboard.'),
  env_crawl4ai_base_url: envVariable('CRAWL4AI_BASE_URL').describe('Filled in by Pegboard.'),
})

export type Settings = z.infer<typeof Config>

export const SETTING = 'modules.web.config'
/** The name of the setting in refusals. */
export const PRIVATE_SWITCH = `FETCH_URL_ALLOW_PRIVATE_NETWORK=false (or ${SETTING}.fetch.allow_private_network)`

export const { reads, writes } = accessChecks(SETTING)

export const allowsPrivate = ({ fetch, env_allow_private_network: envValue }: Settings): boolean =>
  envValue === '' ? fetch.allow_private_network : /^(?:true|1|yes|on)$/i.test(envValue.trim())

export const crawl4aiUrl = ({ fetch, env_crawl4ai_base_url: envValue }: Settings): string =>
  (envValue || fetch.crawl4ai_base_url).trim().replace(/\/+$/, '')

/** The order of engines, and unknown names. The built-in reader is always included. */
export function readingOrder({ fetch, env_engine_order: envValue }: Settings) {
  const configured = envValue === UNSET ? fetch.engine_order : envValue
  const names = (typeof configured === 'string' ? configured.split(',') : configured)
    .map((name) => name.trim())
    .filter(Boolean)
  return splitKnown([...names, 'mcp_fetch'], ['crawl4ai', 'mcp_fetch'])
}

export const searchOrder = ({ search }: Settings) => splitKnown(search.order, ['brave', 'searxng', 'duckduckgo', 'mcp'])

function splitKnown<Name extends string>(names: readonly string[], knownNames: readonly Name[]) {
  const isKnown = (name: string): name is Name => (knownNames as readonly string[]).includes(name)
  return { order: [...new Set(names.filter(isKnown))], unknown: names.filter((name) => !isKnown(name)) }
}

/** Guarded access to the download folder. */
export function downloadsOf(settings: Settings): { readonly base: string; readonly paths: Paths } {
  const { url_fetch, workspace } = settings
  const base = isAbsolute(url_fetch.file_cache_dir)
    ? url_fetch.file_cache_dir
    : resolve(workspace, url_fetch.file_cache_dir)
  // If only PEGBOARD_STATE_DIR is set, the cache is in the state folder.
  const paths = cachePaths({ ...settings, ...url_fetch, file_cache_dir: base }, `${SETTING}.url_fetch`)
  return { base, paths }
}
