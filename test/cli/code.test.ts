import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { cli, place, run, talkTo } from '../process.ts'

const MODULE = `import { defineModule, ToolError, z } from 'pegboard'
export default defineModule({ name: 'odd', description: 'Says what it is, and nothing else.', tools: {
  fail: { description: 'Fails in a way that a model can read.', effect: 'read', input: z.object({}), run() { throw new ToolError('as it should') } } } })
`

it('what V8 compiled is kept for the next start, for this user alone, and a damaged one does no harm', async () => {
  const here = place({}, { 'odd.mjs': MODULE })
  const folder = join(here.dir, 'state/cache/code')
  const kept = (): string[] => {
    try {
      return readdirSync(folder).filter((name) => name.endsWith('.bin'))
    } catch {
      return []
    }
  }
  const call = async (): Promise<string> =>
    await run(process.execPath, [cli, 'call', 'odd.fail', '--config', here.config], { env: here.env }).then(
      ({ stdout }) => stdout,
      ({ stderr }) => String(stderr),
    )
  const began = performance.now()
  const plainly = await call()
  expect(plainly).toContain('E_TOOL_FAILED: as it should')
  expect(plainly).not.toContain('Warning')
  // What runs for three seconds is kept.
  if (performance.now() - began < 3_000) expect(kept()).toEqual([])

  await talkTo(here)
  const files = ['config', 'start', 'zod'].map((name) => expect.stringContaining(`-${name}-${process.version}-`))
  await expect.poll(() => kept().sort(), { timeout: 30_000 }).toEqual(expect.arrayContaining(files))
  for (const file of kept()) expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600)
  expect(await call()).toBe(plainly)

  // What is there is taken over: nothing is compiled and kept anew.
  const times = (): unknown => kept().map((name) => [name, statSync(join(folder, name)).mtimeMs])
  const before = times()
  const again = await talkTo(here)
  again.send({ id: 1, method: 'tools/list' })
  await again.answer(1)
  await sleep(4_000)
  expect(times()).toEqual(before)
  for (const damaged of ['', 'x'.repeat(100_000)]) {
    for (const file of kept()) writeFileSync(join(folder, file), damaged)
    expect(await call()).toBe(plainly)
  }
}, 120_000)
