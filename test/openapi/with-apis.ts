import { createApproval } from '../../src/app/api-approval-by-trust.ts'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import type { Json } from '../../src/core/is-record.ts'
import { createLog, silentLog } from '../../src/core/log.ts'
import { noRelay, type Tool } from '../../src/core/tool.ts'
import type { McpResult } from '../../src/core/tool-result.ts'
import { type Apis, createApis } from '../../src/openapi/apis.ts'
import { apiOptions, readApi } from '../../src/openapi/openapi-options.ts'
import type { StoredList } from '../../src/openapi/stored-list.ts'
import { createTrust, type Trust } from '../../src/trust/trust.ts'
import { testContext } from '../context.ts'

/** Data that survives a restart. */
export const createApiState = () => ({ lists: new Map<string, StoredList>(), documents: new Map<string, Json>() })

export interface TestApis {
  readonly apis: Apis
  readonly catalog: ReturnType<typeof createCatalog>
  readonly logged: readonly Record<string, unknown>[]
  tool(id: string): Tool
  call(id: string, input?: unknown, signal?: AbortSignal): Promise<McpResult>
  until(state: string): Promise<void>
}

/** Runs APIs for one test and always stops them afterwards. */
export async function withApis(
  entries: Readonly<Record<string, object>>,
  test: (apis: TestApis) => Promise<void>,
  options: {
    readonly kept?: ReturnType<typeof createApiState>
    readonly clock?: Clock
    readonly wait?: boolean
    readonly trust?: Trust
  } = {},
): Promise<void> {
  const catalog = createCatalog()
  const logged: Record<string, unknown>[] = []
  const kept = options.kept ?? createApiState()
  const apis = createApis({
    catalog,
    log: createLog((line) => logged.push(JSON.parse(line)), 'debug'),
    clock: options.clock ?? systemClock,
    lists: { get: (key) => kept.lists.get(key), set: (key, value) => void kept.lists.set(key, value) },
    documents: { get: (key) => kept.documents.get(key), set: (key, value) => void kept.documents.set(key, value) },
    approval: createApproval(options.trust ?? trustIn(undefined), catalog, silentLog),
    apis: settingsOf(entries),
    delayMs: 1,
  })
  const tool = (id: string): Tool => {
    const found = catalog.snapshot().byId.get(id)
    if (!found) throw new Error(`no tool ${id}; there are ${[...catalog.snapshot().byId.keys()].join(' ')}`)
    return found
  }
  const until = async (state: string): Promise<void> => {
    const end = Date.now() + 30_000
    while (!apis.status().every((one) => one.state === state)) {
      if (Date.now() > end) throw new Error(`not ${state}: ${JSON.stringify(apis.status())}`)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  try {
    await apis.start()
    if (options.wait !== false) await until('ready')
    await test({
      apis,
      catalog,
      logged,
      tool,
      until,
      async call(id, input = {}, signal = new AbortController().signal) {
        const one = tool(id)
        const parsed = one.parse(input)
        if (!parsed.ok) throw new Error(`invalid: ${JSON.stringify(parsed.issues)}`)
        const result = await one.run(parsed.value, testContext({ signal }), noRelay)
        if (result.kind !== 'mcp') throw new Error(result.kind)
        return result.result
      },
    })
  } finally {
    await apis.stop()
  }
}

/** @param file of the lock; without one, approvals are lost with it */
export const trustIn = (file: string | undefined): Trust => createTrust({ file, log: silentLog, reserved: new Set() })

export const settingsOf = (entries: Readonly<Record<string, object>>) =>
  Object.fromEntries(
    Object.entries(entries).map(([id, entry]) => [id, readApi(id, apiOptions.parse(entry), (path) => path)]),
  )
