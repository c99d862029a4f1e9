import { messageOf } from '../core/errors.ts'
import { scrub } from '../core/scrub.ts'
import type { PlatformAdapter } from '../core/service-types.ts'
import { valueResult } from '../core/tool-result.ts'
import type { Host, MetaTool } from './meta-host.ts'
import { onlyKeys } from './meta-input.ts'

const WAIT_MS = 5_000

export const listActiveServers = (host: Host): MetaTool => ({
  name: 'list_active_servers',
  title: 'List active servers',
  description: () => 'List servers, rooms and client sessions that can get messages now, by platform.',
  inputSchema: { type: 'object', properties: {} },
  hints: { readOnlyHint: true, openWorldHint: false },
  async run(input, { caller }) {
    onlyKeys(input, [], 'list_active_servers')
    const adapters = host.context.servicesOf(caller).adapters?.list() ?? []
    return valueResult({ adapters: await Promise.all(adapters.map(serversOf)) })
  },
})

/** A failing adapter reports its error and does not affect the others. */
async function serversOf(adapter: PlatformAdapter) {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${WAIT_MS} ms`)), WAIT_MS)
  })
  try {
    return { adapter: adapter.name, servers: await Promise.race([adapter.listServers(), late]) }
  } catch (error) {
    return { adapter: adapter.name, error: scrub(messageOf(error)) }
  } finally {
    clearTimeout(timer)
  }
}
