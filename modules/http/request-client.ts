import { createFetch, type Fetch, type GuardedFetch, ToolError } from 'pegboard'
import { matchesHostList, SETTING, type Settings } from './config.ts'

/** One `fetch` per configuration, because profiles may have their own. */
export interface Client {
  fetchFor(settings: Settings): Fetch
  close(): Promise<void>
}

export function createClient(): Client {
  const fetchBySettings = new Map<string, GuardedFetch>()
  return {
    fetchFor(settings) {
      const key = JSON.stringify(settings)
      const client = fetchBySettings.get(key) ?? createFetchFor(settings)
      fetchBySettings.set(key, client)
      return client
    },
    async close() {
      await Promise.all([...fetchBySettings.values()].map((client) => client.close()))
      fetchBySettings.clear()
    },
  }
}

const createFetchFor = (settings: Settings): GuardedFetch =>
  createFetch({
    allowPrivate: settings.allow_private_hosts,
    setting: `${SETTING}.allow_private_hosts`,
    sizeSetting: `${SETTING}.max_response`,
    check: (url) => checkHost(url.hostname, settings),
    maxRedirects: settings.max_redirects,
    timeoutMs: settings.timeout * 1000,
    maxWireBytes: settings.max_response,
    maxBytes: settings.max_response,
    userAgent: settings.user_agent,
  })

function checkHost(host: string, { allowed_hosts, blocked_hosts }: Settings): void {
  const refuse = (key: string): never => {
    throw new ToolError(`The host "${host}" is not allowed.`, {
      code: 'E_SSRF_BLOCKED',
      hint: `See ${SETTING}.${key}.`,
    })
  }
  if (matchesHostList(host, blocked_hosts)) refuse('blocked_hosts')
  if (allowed_hosts && !matchesHostList(host, allowed_hosts)) refuse('allowed_hosts')
}
