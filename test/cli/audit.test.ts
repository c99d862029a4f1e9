import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { createHashChain } from '../../src/observe/hash-chain.ts'
import { startApp, temporaryFolder } from '../app.ts'
import { pegboard } from './terminal.ts'

const key = Buffer.alloc(32, 1)
const ENDS = 'Named files can be parts of a log: lines may be missing before the first line and after the last one.\n'

/** A folder with a log of this many lines, some of them in rotated files. */
function logged(perFile: Readonly<Record<string, number>>) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, '.state'))
  writeFileSync(join(dir, '.state', 'audit.key'), key)
  const chain = createHashChain(key)
  for (const [name, count] of Object.entries(perFile))
    for (let n = 1; n <= count; n++)
      appendFileSync(
        join(dir, '.state', name),
        `${chain.sign({ tool: `${name} ${n}`, text: 'one\u2028other\r\n' }, JSON.stringify)}\n`,
      )
  return { dir, file: join(dir, '.state', 'audit.jsonl') }
}

test('an unchanged log is reported as valid, including rotated files', async () => {
  const { dir } = logged({ 'audit.jsonl.2': 2, 'audit.jsonl.1': 2, 'audit.jsonl': 3 })
  expect(await pegboard(dir, 'audit', 'verify')).toEqual({
    code: 0,
    out: '7 lines in 3 files, no line changed, inserted or deleted.\n',
    err: '',
  })
})

test('a key that is not whole is reported, instead of all lines as changed', async () => {
  const { dir } = logged({ 'audit.jsonl': 2 })
  const keyFile = join(dir, '.state', 'audit.key')
  writeFileSync(keyFile, '')
  const { code, out, err } = await pegboard(dir, 'audit', 'verify')
  expect([code, out]).toEqual([1, ''])
  expect(err).toContain(`E_STATE: The key of the audit log is damaged: ${keyFile} has 0 bytes instead of 32.`)
})

test('what the server writes is valid', async () => {
  const dir = temporaryFolder()
  const { app } = await startApp({ audit: { enabled: true } }, dir)
  for (const name of ['Ada', 'Bob']) await app.call({ name: 'hello.say_hello', input: { name }, caller: localCaller })
  await app.stop()
  const state = join(dir, 'state')
  const { code, out } = await pegboard(
    dir,
    'audit',
    'verify',
    join(state, 'audit.jsonl'),
    '--key',
    join(state, 'audit.key'),
  )
  expect([code, out]).toEqual([0, `2 lines in 1 file, no line changed, inserted or deleted.\n${ENDS}`])
})

test('verify says that it cannot verify the ends of a copy', async () => {
  const { dir, file } = logged({ 'audit.jsonl': 6 })
  const copy = join(dir, 'copy.jsonl')
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
  for (const [kept, count] of [
    [lines.slice(2), '4 lines'],
    [lines.slice(0, 3), '3 lines'],
    [[], '0 lines'],
  ] as const) {
    writeFileSync(copy, kept.map((line) => `${line}\n`).join(''))
    expect(await pegboard(dir, 'audit', 'verify', 'copy.jsonl')).toMatchObject({
      code: 0,
      out: `${count} in 1 file, no line changed, inserted or deleted.\n${ENDS}`,
    })
    const told = JSON.parse((await pegboard(dir, 'audit', 'verify', 'copy.jsonl', '--json')).out)
    expect(told).toMatchObject({ breaks: [], ends_verified: false })
  }
  expect(JSON.parse((await pegboard(dir, 'audit', 'verify', '--json')).out)).toMatchObject({ ends_verified: true })
})

test('changed, inserted and deleted lines are listed, and the exit code is 1', async () => {
  const { dir, file } = logged({ 'audit.jsonl': 6 })
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
  lines[1] = String(lines[1]).replace('audit.jsonl 2', 'audit.jsonl 9')
  lines.splice(3, 1, '{"tool":"forged"}')
  writeFileSync(file, `${lines.join('\n')}\n`)
  const { code, out } = await pegboard(dir, 'audit', 'verify')
  expect([code, out.split('\n')]).toEqual([
    1,
    [
      'audit.jsonl:2: changed',
      'audit.jsonl:3: lines before it are missing',
      'audit.jsonl:4: not a signed line',
      'audit.jsonl:5: lines before it are missing',
      '6 lines in 1 file, 4 changed, inserted or deleted.',
      '',
    ],
  ])
  const told = JSON.parse((await pegboard(dir, 'audit', 'verify', '--json')).out)
  expect(told).toMatchObject({ files: [file], lines: 6, breaks: [{ file, line: 2, what: 'changed' }, {}, {}, {}] })
})

test('without a log, a key or a subcommand, nothing is created and the error says what is missing', async () => {
  const dir = temporaryFolder()
  expect((await pegboard(dir, 'audit')).code).toBe(2)
  const none = await pegboard(dir, 'audit', 'verify')
  expect([none.code, none.err]).toEqual([1, expect.stringContaining('There is no audit log at')])
  const away = await pegboard(dir, 'audit', 'verify', 'log')
  expect([away.code, away.err]).toEqual([1, expect.stringMatching(/There is no audit log at \S+log\./)])
  writeFileSync(join(dir, 'log'), '')
  const keyless = await pegboard(dir, 'audit', 'verify', 'log')
  expect([keyless.code, keyless.err]).toEqual([1, expect.stringContaining('The key of the audit log cannot be read')])
  const { dir: other } = logged({ 'audit.jsonl': 1 })
  expect((await pegboard(other, 'audit', 'verify', 'no-such-file')).code).toBe(1)
})

test('a log that was emptied, cut at either end, or removed is detected', async () => {
  const dir = temporaryFolder()
  const config = join(dir, 'mcp.config.json')
  const settings = { audit: { enabled: true, maxBytes: 4_096, keep: 3 } }
  writeFileSync(config, JSON.stringify(settings))
  const log = join(dir, 'state/audit.jsonl')
  const verify = (): ReturnType<typeof pegboard> =>
    pegboard(dir, 'audit', 'verify', '--config', config).then(({ code, out, err }) => ({ code, out, err }))
  writeFileSync(config, JSON.stringify({ ...settings, dirs: { state: 'state' } }))
  const { app } = await startApp(settings, dir)
  const call = (name: string): Promise<unknown> =>
    app.call({ name: 'hello.say_hello', input: { name }, caller: localCaller })
  for (let n = 0; n < 40; n++) {
    await call(`n${n}`)
    if (n % 4 === 3) await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await app.stop()
  expect(await verify()).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^\d+ lines in 4 files, no line changed/),
  })

  const whole = readFileSync(log, 'utf8')
  const lines = whole.trimEnd().split('\n')
  writeFileSync(log, `${lines.slice(0, -1).join('\n')}\n`)
  expect(await verify()).toMatchObject({
    code: 1,
    out: expect.stringContaining(`audit.jsonl:${lines.length}: lines from here on are missing\n`),
  })
  writeFileSync(log, '')
  expect(await verify()).toMatchObject({ code: 1, out: expect.stringContaining('audit.jsonl:1: lines from here on') })
  writeFileSync(log, whole)
  const oldest = readFileSync(`${log}.3`, 'utf8')
  writeFileSync(`${log}.3`, oldest.slice(oldest.indexOf('\n') + 1))
  expect(await verify()).toMatchObject({
    code: 1,
    out: expect.stringContaining('audit.jsonl.3:1: lines before it are missing\n'),
  })
  writeFileSync(`${log}.3`, oldest)
  expect((await verify()).code).toBe(0)
  for (const file of [log, `${log}.1`, `${log}.2`, `${log}.3`]) rmSync(file)
  expect((await verify()).code).toBe(1)
})
