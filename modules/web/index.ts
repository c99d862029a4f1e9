import { defineModule, type ToolModule } from 'pegboard'
import { createTurns, inTurns } from '../_turns.ts'
import { Config, readingOrder, SETTING, type Settings, searchOrder } from './config.ts'
import { createExtract } from './extract.ts'
import { createFetchUrl } from './fetch_url.ts'
import { createHealth } from './health.ts'
import { createReader } from './reader.ts'
import { createRobots } from './robots.ts'
import { createWebSearch } from './search.ts'
import { createUrlFetch } from './url_fetch.ts'
import { createClientPool } from './web-clients.ts'

/** Requests at once, of all principals and of one. Each may hold an answer of several MiB. */
const REQUESTS = { all: 256, each: 128 }

/** State is created here, so that a reloaded or second instance has its own. */
function web(): ToolModule<unknown> {
  let changed: () => void = () => undefined
  const client = createClientPool()
  const reader = createReader()
  const health = createHealth(() => changed())
  const robots = createRobots()
  const turns = createTurns(REQUESTS.all, REQUESTS.each)
  return defineModule({
    name: 'web',
    description: 'Search the web, read pages as text, and send requests with logins, to allowed addresses.',
    config: Config,
    synonyms: [
      ['url', 'address', 'link', 'page', 'website', 'site', 'adresse', 'lien', 'enlace'],
      ['web', 'internet', 'online', 'en ligne'],
    ],
    start({ config, log, changed: onChanged }) {
      changed = onChanged
      const { access } = config as Settings
      if (access === 'none') return
      for (const [key, names] of [
        ['search.order', searchOrder(config as Settings).unknown],
        ['fetch.engine_order', readingOrder(config as Settings).unknown],
      ] as const)
        if (names.length > 0) log.warn('unknown engines are ignored', { setting: `${SETTING}.${key}`, names })
    },
    async stop() {
      changed = () => undefined
      await reader.close()
      await client.close()
    },
    tools: inTurns(turns, {
      web_search: createWebSearch(client, reader, health),
      fetch_url: createFetchUrl(client, reader, health, robots),
      extract: createExtract(client, reader, robots),
      url_fetch: createUrlFetch(client),
    }),
  }) as ToolModule<unknown>
}

export default web()
