import { messageOf } from '../core/errors.ts'
import { valueResult } from '../core/result.ts'
import { scrub } from '../core/scrub.ts'
import type { PlatformAdapter } from '../core/services.ts'
import type { Host, MetaTool } from './host.ts'
import { onlyKeys } from './input.ts'

const WAIT_MS = 5_000

export const listActiveServers = (host: Host): MetaTool => ({
  name: 'list_active_servers',
  title: 'List active servers',
  description: () => 'Servers, rooms and client sessions that messages can be sent to now, by platform.',
  inputSchema: { type: 'object', properties: {} },
  hints: { readOnlyHint: true, openWorldHint: false },
  async run(input, { caller }) {
    onlyKeys(input, [], 'list_active_servers')
    const adapters = host.context.servicesOf(caller).adapters?.list() ?? []
    return valueResult({ adapters: await Promise.all(adapters.map(serversOf)) })
  },
})

/** One that fails says so, and takes no other along. */
async function serversOf(adapter: PlatformAdapter) {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not answer within ${WAIT_MS} ms`)), WAIT_MS)
  })
  try {
    return { adapter: adapter.name, servers: await Promise.race([adapter.listServers(), late]) }
  } catch (error) {
    return { adapter: adapter.name, error: scrub(messageOf(error)) }
  } finally {
    clearTimeout(timer)
  }
}
