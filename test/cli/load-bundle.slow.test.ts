import { cpSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { cli, place, run, talkTo } from '../process.ts'

const MODULE = `import { defineModule, ToolError, z } from 'pegboard'
export default defineModule({ name: 'odd', description: 'Says what it is, and nothing else.', tools: {
  fail: { description: 'Fails in a way that a model can read.', effect: 'read', input: z.object({}), run() { throw new ToolError('as it should') } } } })
`

it('compiled code is cached for this user only, and a damaged cache is ignored', async () => {
  // A module that is off by default is in the second chunk.
  const here = place({ modules: { relay: {} } }, { 'odd.mjs': MODULE })
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
  // The cache is written after three seconds.
  if (performance.now() - began < 3_000) expect(kept()).toEqual([])

  await talkTo(here)
  const files = ['pegboard', 'modules'].map((name) => expect.stringContaining(`-${name}-${process.version}-`))
  await expect.poll(() => kept().sort(), { timeout: 30_000 }).toEqual(expect.arrayContaining(files))
  for (const file of kept()) expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600)
  expect(await call()).toBe(plainly)

  // The second process uses the cache and does not write it again.
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

it('stack traces name files of their own installation, even if another one shares the cache', async () => {
  const here = place()
  const folder = join(here.dir, 'state/cache/code')
  const root = join(import.meta.dirname, '../..')
  const copy = join(here.dir, 'copy')
  for (const name of ['dist', 'package.json']) cpSync(join(root, name), join(copy, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  const tracing = join(here.dir, 'tracing.cjs')
  writeFileSync(
    tracing,
    `const { write } = process.stdout
process.stdout.write = function (...args) { process.stderr.write(new Error('here').stack); return write.apply(this, args) }`,
  )
  const kept = (): string[] => readdirSync(folder).filter((name) => name.includes('-pegboard-'))
  await talkTo(here)
  await expect.poll(kept, { timeout: 30_000 }).toHaveLength(1)
  const { stderr } = await run(process.execPath, ['--require', tracing, join(copy, 'dist/cli/main.js'), '--version'], {
    env: here.env,
  })
  expect(stderr).toContain(join(copy, 'dist/pegboard.cjs'))
  expect(stderr).not.toContain(join(root, 'dist/pegboard.cjs'))
}, 60_000)

it('a start loads neither node:child_process nor node:worker_threads before the first tools/list', async () => {
  const here = place()
  const [hook, loaded] = [join(here.dir, 'hook.cjs'), join(here.dir, 'loaded.json')]
  writeFileSync(
    hook,
    `const { write } = process.stdout
process.stdout.write = function (data, ...more) {
  if (String(data).includes('"tools":['))
    require('node:fs').writeFileSync(${JSON.stringify(loaded)}, JSON.stringify(process.moduleLoadList))
  return write.call(this, data, ...more)
}`,
  )
  const talking = await talkTo({ ...here, env: { ...here.env, NODE_OPTIONS: `--require ${hook}` } })
  talking.send({ id: 1, method: 'tools/list' })
  await talking.answer(1)
  const names = JSON.parse(readFileSync(loaded, 'utf8')) as string[]
  expect(names).toContain('NativeModule net')
  expect(names).not.toContain('NativeModule child_process')
  expect(names).not.toContain('NativeModule worker_threads')
}, 30_000)
