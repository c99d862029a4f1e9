import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Answer, startApp, type TestApp, temporaryFolder } from './app.ts'
import { callTool, connectTo } from './client.ts'

/** The program behind them: `node LISTED tools.json`. */
export const LISTED = join(import.meta.dirname, 'fixtures/upstreams/listed.mjs')

export interface Offered {
  readonly tools: ReadonlyArray<object | null>
  readonly instructions?: string
  readonly resources?: ReadonlyArray<object>
  readonly resourceTemplates?: ReadonlyArray<object>
  readonly prompts?: ReadonlyArray<object>
  readonly toolsText?: string
  readonly version?: string
  /** Answers by method or tool name. */
  readonly answers?: Readonly<
    Record<string, { readonly result?: object; readonly error?: object; readonly say?: readonly object[] }>
  >
}

/** The error code, or the text of the tool. */
export const codeOf = ({ error, structuredContent, content }: Answer): string =>
  error?.data?.code ?? structuredContent?.error?.code ?? content[0].text

/** Servers whose lists come from a file, behind Pegboard, in their own folder. */
export async function serve(
  offered: Readonly<Record<string, Offered>>,
  more: Readonly<Record<string, object>> = {},
  dir = temporaryFolder(),
  options: Parameters<typeof startApp>[2] = {},
  config: object = {},
) {
  const offer = (id: string, now: Offered): void => writeFileSync(join(dir, `${id}.tools.json`), JSON.stringify(now))
  for (const [id, now] of Object.entries(offered)) offer(id, now)
  const mcpServers = Object.fromEntries(
    Object.keys(offered).map((id) => [
      id,
      { command: process.execPath, args: [LISTED, join(dir, `${id}.tools.json`)], start: 'background', ...more[id] },
    ]),
  )
  const test = await startApp({ exposure: { mode: 'direct' }, mcpServers, ...config }, dir, options)
  await test.app.settled(20_000)
  return { ...test, offer, ...asking(test) }
}

export function asking({ app }: TestApp) {
  const quarantined = (id: string) => app.catalog.snapshot().owners.get(id)?.quarantined ?? []
  return {
    /** Names of server tools for clients, by id. */
    named: (): Record<string, string> =>
      Object.fromEntries(
        app.catalog.snapshot().tools.flatMap(({ id, name, origin }) => (origin === 'upstream' ? [[id, name]] : [])),
      ),
    ids: () => app.catalog.snapshot().tools.flatMap((tool) => (tool.origin === 'upstream' ? [tool.id] : [])),
    quarantined: (id: string) => quarantined(id).map(({ tool }) => tool.id),
    async call(name: string, args: object = {}): Promise<Answer> {
      const client = await connectTo(app)
      try {
        return await callTool(client, { name, arguments: { ...args } })
      } finally {
        await client.close()
      }
    },
    async client(use: (client: Awaited<ReturnType<typeof connectTo>>) => Promise<void>) {
      const client = await connectTo(app)
      await use(client).finally(() => client.close())
    },
  }
}

export const add = { name: 'add', description: 'Adds two numbers.' }
export const sub = { name: 'subtract', description: 'Subtracts two numbers.' }
/** Text in characters that only a model reads. */
export const tags = (text: string): string =>
  [...text].map((char) => String.fromCodePoint(0xe0000 + char.charCodeAt(0))).join('')
