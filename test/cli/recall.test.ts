import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type Place, place, talkTo } from '../process.ts'

const filesIn = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder) : [])
const isWhole = (name: string): boolean => name.endsWith('.bin')

/** What the server says it is called, once it has listed its tools. */
async function nameOf(here: Place): Promise<string> {
  const talk = await talkTo(here)
  const { result } = (await talk.answer(0)) as { result: { serverInfo: { name: string } } }
  talk.send({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
  await talk.answer(1)
  return result.serverInfo.name
}

const SETTINGS = {
  server: { name: 'at ${PLACE}' },
  mcpServers: { web: { url: 'http://127.0.0.1:9/', enabled: false, headers: { a: '${SECRET}' } } },
}
const withEnv = (here: Place, env: Record<string, string>): Place => ({ ...here, env: { ...here.env, ...env } })

it('a configuration that was read before is known while its text and its variables are the same', async () => {
  const here = withEnv(place(SETTINGS), { PLACE: 'home', SECRET: 'hush-hush' })
  const folder = join(here.dir, 'state/cache/config')
  const code = join(here.dir, 'state/cache/code')
  const kept = (): string[] => filesIn(folder).filter(isWhole)
  expect(await nameOf(here)).toBe('at home')
  await expect.poll(kept, { timeout: 15_000 }).toHaveLength(1)
  const file = join(folder, kept()[0] ?? '')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  for (const secret of ['hush', 'home', '127.0.0.1']) expect(readFileSync(file, 'latin1')).not.toContain(secret)

  // A start that knows it needs neither zod nor what checks configurations.
  await expect.poll(() => filesIn(code).filter(isWhole).length, { timeout: 15_000 }).toBeGreaterThan(2)
  rmSync(code, { recursive: true })
  expect(await nameOf(here)).toBe('at home')
  await expect
    .poll(() => filesIn(code).filter(isWhole), { timeout: 15_000 })
    .toEqual([expect.stringContaining('-later-'), expect.stringContaining('-start-')])

  expect(await nameOf(withEnv(here, { PLACE: 'work' }))).toBe('at work')
  expect(await nameOf(withEnv(here, { UNRELATED: 'x' }))).toBe('at home')
  writeFileSync(here.config, JSON.stringify({ ...SETTINGS, server: { name: 'elsewhere' } }))
  expect(await nameOf(here)).toBe('elsewhere')
}, 60_000)

it('a damaged memory of a configuration, and one that others could have written, do no harm', async () => {
  const here = withEnv(place(SETTINGS), { PLACE: 'home', SECRET: 'hush' })
  const folder = join(here.dir, 'state/cache/config')
  expect(await nameOf(here)).toBe('at home')
  await expect.poll(() => filesIn(folder).filter(isWhole), { timeout: 15_000 }).toHaveLength(1)
  const file = join(folder, filesIn(folder)[0] ?? '')
  const good = readFileSync(file)
  const flipped = Buffer.from(good)
  flipped[good.length - 1] = (flipped[good.length - 1] ?? 0) ^ 1
  for (const damaged of [Buffer.alloc(0), Buffer.from('[]\n'), good.subarray(0, 60), flipped]) {
    writeFileSync(file, damaged)
    expect(await nameOf(here)).toBe('at home')
  }
}, 60_000)
