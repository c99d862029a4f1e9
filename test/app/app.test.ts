import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import { readConfig } from '../../src/config/load-config.ts'
import { cli, place, run } from '../process.ts'

/** A program that uses an app of the package and does nothing else. */
async function program(settings: object, body: string): Promise<string> {
  const { dir, config, env } = place()
  const read = readConfig(JSON.stringify(settings), config, { env, cwd: dir }).config
  const script = join(dir, 'program.mjs')
  writeFileSync(
    script,
    `import { createApp } from ${JSON.stringify(pathToFileURL(join(dirname(cli), '../index.js')).href)}
const caller = { principal: 'local', profile: 'default', roles: [], era: 'legacy', supports: {} }
const app = createApp(${JSON.stringify(read)}, { env: process.env, connectDelayMs: { cold: 0 } })
await app.start()
${body}
await app.stop()
`,
  )
  return (await run(process.execPath, [script], { env })).stdout
}

const gone = { command: process.execPath, args: ['-e', 'process.exit(1)'] }

it('an app keeps a program alive while it waits for servers or calls, and lets it exit afterwards', async () => {
  const body = `await app.settled(1_500)
const failed = await app.call({ name: 'gone__anything', input: {}, caller }).catch((error) => error)
console.log(failed.code)
console.log((await app.call({ name: 'hello.say_hello', input: { name: 'Ada' }, caller })).value.message)
await app.drain(500)`
  expect(await program({ mcpServers: { gone } }, body)).toBe('E_UPSTREAM_UNAVAILABLE\nHello, Ada!\n')
})
