import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createLog, silentLog } from '../../src/core/log.ts'
import { readFingerprint, watchFolder } from '../../src/loader/watch-folder.ts'
import { createManualClock } from '../clock.ts'
import { bench, moduleSource, put, tempDir, until } from './setup.ts'

it('reports added, changed and removed files while it watches', async () => {
  const found = await bench({ 'one.mjs': moduleSource('one', 'v1') })
  await found.loader.start()
  found.loader.watch()
  const has = (id: string): boolean => found.catalog.snapshot().byId.has(id)

  await put(found.dir, { 'two.ts': moduleSource('two', 'new') })
  await until(() => has('two.say'))
  expect(await found.run('two.say')).toBe('new')

  const before = found.tool('one.say')
  await put(found.dir, { 'one.mjs': moduleSource('one', 'v2') })
  await until(() => found.tool('one.say') !== before)
  expect(await found.run('one.say')).toBe('v2')

  await rm(join(found.dir, 'two.ts'))
  await until(() => !has('two.say'))
  expect(found.loader.status().loaded.map(({ id }) => id)).toEqual(['one'])
})

it('logs in one line that a reload failed, also when the file fails again in the same way', async () => {
  const lines: string[] = []
  const log = createLog((line) => lines.push(JSON.parse(line).message), 'info')
  const found = await bench({ 'one.mjs': moduleSource('one', 'v1') }, { log })
  await found.loader.start()
  found.loader.watch()
  const failure = 'a module was not reloaded, and its earlier version stays in use: one.mjs:1: Unexpected end of input'
  await put(found.dir, { 'one.mjs': 'export default {' })
  await until(() => lines.length > 0)
  await put(found.dir, { 'one.mjs': 'export default { ' })
  await until(() => lines.length > 1)
  await put(found.dir, { 'one.mjs': moduleSource('one', 'v2') })
  await until(() => lines.length > 3)
  expect(lines).toEqual([failure, failure, 'one.mjs loaded', 'modules were reloaded'])
})

it('logs only problems of changed files when a helper changes, and that a failed helper stays in use', async () => {
  const helper = (word: string): string => `export const word = '${word}'\n`
  const bundled = await tempDir({ 'own.mjs': 'export default {' })
  const found = await bench(
    {
      '_words.mjs': helper('one'),
      'a.mjs': `import { word } from './_words.mjs'\n${moduleSource('a', '').replace("=> ''", '=> word')}`,
      'broken.mjs': 'export default {',
    },
    { bundledDirs: [bundled] },
  )
  const report = await found.loader.start()
  expect(report.failed.map(({ file }) => file)).toEqual(['bundled/own.mjs', 'broken.mjs'])
  const atStart = found.warnings.length
  found.loader.watch()
  const a = found.tool('a.say')
  await put(found.dir, { '_words.mjs': helper('two') })
  await until(() => found.tool('a.say') !== a)
  expect(found.warnings).toHaveLength(atStart)
  for (const source of ['export const', 'export const ']) {
    const before = found.warnings.length
    await put(found.dir, { '_words.mjs': source })
    await until(() => found.warnings.length > before)
  }
  const failure = /^a helper was not reloaded, and its earlier version stays in use: _words\.mjs/
  expect(found.warnings.slice(atStart).map(({ message }) => message)).toEqual([
    expect.stringMatching(failure),
    expect.stringMatching(failure),
  ])
  expect([await found.run('a.say'), found.loader.shared]).toMatchObject(['two', { words: { word: 'two' } }])
})

it('reloads all modules when a helper changes, and one when its own folder does', async () => {
  const found = await bench({
    '_words.mjs': "export const word = 'old'\n",
    'a.mjs': `import { word } from './_words.mjs'\n${moduleSource('a', '').replace("=> ''", '=> word')}`,
    'b/index.mjs': `import { word } from './own.mjs'\n${moduleSource('b', '').replace("=> ''", '=> word')}`,
    'b/own.mjs': "export const word = 'b1'\n",
  })
  await found.loader.start()
  found.loader.watch()
  const [a, b] = [found.tool('a.say'), found.tool('b.say')]
  await put(found.dir, { 'b/own.mjs': "export const word = 'b2'\n" })
  await until(() => found.tool('b.say') !== b)
  expect(await found.run('b.say')).toBe('b2')
  expect(found.tool('a.say')).toBe(a)
  await put(found.dir, { '_words.mjs': "export const word = 'new'\n" })
  await until(() => found.tool('a.say') !== a)
  expect(await found.run('a.say')).toBe('new')
  expect(found.loader.shared).toMatchObject({ words: { word: 'new' } })
})

it('watches only code files', async () => {
  const dir = await tempDir({
    'kit/index.mjs': "import data from './data.json' with { type: 'json' }",
    'kit/data.json': '{}',
  })
  expect([...(await readFingerprint(dir)).keys()]).toEqual([join(dir, 'kit/index.mjs')])
})

it('waits for a folder that does not exist yet', async () => {
  const parent = await tempDir()
  const found = await bench({}, { modulesDir: join(parent, 'later', 'modules') })
  await found.loader.start()
  found.loader.watch()
  await put(parent, { 'later/modules/one.mjs': moduleSource('one', 'late') })
  await until(() => found.catalog.snapshot().byId.has('one.say'))
})

it('checks again after an unreadable folder, without an event', async () => {
  const clock = createManualClock(0)
  let times = 0
  const end = watchFolder(
    await tempDir(),
    async () => {
      if (++times < 3) throw Object.assign(new Error('too many open files'), { code: 'EMFILE' })
    },
    { clock, log: silentLog },
  )
  await until(() => {
    clock.pass(1_000)
    return times === 3
  })
  end()
})

it('finds files added while the folders were unreadable', async () => {
  const clock = createManualClock(0)
  // Like a folder that cannot be opened because no descriptor is free.
  const bundledDirs: string[] = []
  const found = await bench({ 'one.mjs': moduleSource('one', 'v1') }, { clock, bundledDirs })
  await found.loader.start()
  bundledDirs.push(join(found.dir, 'x'.repeat(300)))
  found.loader.watch()
  await put(found.dir, { 'two.mjs': moduleSource('two', 'new') })
  const later = (is: () => boolean): Promise<void> =>
    until(() => {
      clock.pass(1_000)
      return is()
    })
  await later(() => found.warnings.some(({ message }) => message === 'cannot reload modules'))
  bundledDirs.pop()
  await later(() => found.catalog.snapshot().byId.has('two.say'))
})

it('reloads an unchanged module that could not be opened before', async () => {
  const clock = createManualClock(0)
  const text = `if (globalThis.crowded) throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })\n`
  const found = await bench({ 'one.mjs': text + moduleSource('one', 'v1') }, { clock })
  Object.assign(globalThis, { crowded: true })
  onTestFinished(() => Object.assign(globalThis, { crowded: false }) && undefined)
  expect((await found.loader.start()).failed.map(({ file }) => file)).toEqual(['one.mjs'])
  Object.assign(globalThis, { crowded: false })
  found.loader.watch()
  await until(() => {
    clock.pass(1_000)
    return found.catalog.snapshot().byId.has('one.say')
  })
  expect(found.loader.status().failed).toEqual([])
})
