import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Answer } from '../app.ts'
import { type Place, place, talkTo } from '../process.ts'
import { alive, until } from '../upstream/host.ts'

/** A server that ignores the end of its stdin and every polite signal, and starts a process that does too. */
const stubborn = `#!/usr/bin/env node
const { spawn } = require('node:child_process')
const { writeFileSync } = require('node:fs')
const { createInterface } = require('node:readline')
for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT']) process.on(signal, () => undefined)
const deaf = "for (const s of ['SIGTERM', 'SIGHUP', 'SIGINT']) process.on(s, () => {}); setInterval(() => {}, 1000)"
const child = spawn(process.execPath, ['-e', deaf], { stdio: ['ignore', 'inherit', 'inherit'] })
writeFileSync(process.argv[2] + '/' + process.pid, String(process.ppid))
writeFileSync(process.argv[2] + '/' + child.pid, '')
setInterval(() => undefined, 1000)
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) return
  if (method === 'initialize') say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'stubborn', version: '1' } } })
  else if (method === 'tools/list') say({ id, result: { tools: [{ name: 'stay', inputSchema: { type: 'object' } }] } })
  else say({ id, error: { code: -32601, message: 'no' } })
})
`

/** Serves with a package of ours that `npx` runs from disk. Answers every process of it: npx, its shell, the server and its child. */
async function serving(): Promise<{
  readonly talk: Awaited<ReturnType<typeof talkTo>>
  readonly pids: readonly number[]
}> {
  const here: Place = place()
  const own = join(here.dir, 'project')
  const pidDir = join(here.dir, 'pids')
  const bin = join(own, 'node_modules', '.bin')
  for (const dir of [bin, pidDir]) mkdirSync(dir, { recursive: true })
  writeFileSync(join(own, 'package.json'), JSON.stringify({ name: 'project', version: '1.0.0', private: true }))
  writeFileSync(join(bin, 'stubborn-server'), stubborn, { mode: 0o755 })
  const entry = { command: 'npx', args: ['--no-install', 'stubborn-server', pidDir], cwd: own, start: 'eager' }
  writeFileSync(here.config, JSON.stringify({ exposure: { mode: 'direct' }, mcpServers: { npx: entry } }))
  const talk = await talkTo(here)
  await until(() => readdirSync(pidDir).length >= 2, 15_000, talk.stderr)
  const written = readdirSync(pidDir).map(Number)
  onTestFinished(() => {
    for (const pid of pids) if (alive(pid)) process.kill(pid, 'SIGKILL')
  })
  const pids = [...new Set([...written, ...written.flatMap((pid) => ancestors(pid, talk.child.pid as number))])]
  // Connected, so that it is not ended for being slow.
  for (let id = 1; ; id++) {
    talk.send({ id, method: 'tools/list' })
    const names = ((await talk.answer(id)) as Answer).result.tools.map(({ name }: { name: string }) => name)
    if (names.includes('npx__stay')) break
    await sleep(50)
  }
  return { talk, pids }
}

/** Everything between a process and ours: npx and the shell it starts. */
function ancestors(pid: number, ours: number): number[] {
  const found: number[] = []
  for (let at = pid; ; ) {
    const parent = Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${at}/stat`, 'latin1'))?.[1])
    if (parent === ours || !(parent > 1)) return found
    found.push(parent)
    at = parent
  }
}

// Ancestors are read from /proc.
describe.runIf(process.platform === 'linux')('a server run by npx, deaf to the end of its stdin and to SIGTERM', () => {
  const gone = async (pids: readonly number[], withinMs: number): Promise<void> => {
    const startedAt = performance.now()
    await until(
      () => !pids.some(alive),
      withinMs,
      () => pids.filter(alive).join(' '),
    )
    expect(performance.now() - startedAt).toBeLessThan(withinMs)
  }

  it('does not survive Pegboard killed with SIGKILL by five seconds, nor does anything it started [LIFE-03]', async () => {
    const { talk, pids } = await serving()
    // npx, the server and what it started; npx may use a shell in between.
    expect(pids.length).toBeGreaterThanOrEqual(3)
    expect(pids.every(alive)).toBe(true)
    talk.child.kill('SIGKILL')
    await gone(pids, 5_000)
  })

  it('ends with Pegboard when its client leaves', async () => {
    const { talk, pids } = await serving()
    const ended = once(talk.child, 'exit')
    talk.child.stdin?.end()
    expect(await ended).toEqual([0, null])
    await gone(pids, 1_000)
  })

  it.each(['SIGTERM', 'SIGHUP'] as const)('ends with Pegboard on %s', async (signal) => {
    const { talk, pids } = await serving()
    const ended = once(talk.child, 'exit')
    talk.child.kill(signal)
    expect(await ended).toEqual([0, null])
    await gone(pids, 1_000)
  })

  it('ends at once with Pegboard when that is told twice [LIFE-02]', async () => {
    const { talk, pids } = await serving()
    const ended = once(talk.child, 'exit')
    talk.child.kill('SIGTERM')
    await sleep(100)
    const startedAt = performance.now()
    talk.child.kill('SIGTERM')
    expect(await ended).toEqual([130, null])
    expect(performance.now() - startedAt).toBeLessThan(1_500)
    await gone(pids, 1_000)
  })
})

const slow = `
export default { name: 'slow', description: 'Takes its time.', tools: { wait: { description: 'Waits for some milliseconds.', effect: 'read',
  input: { type: 'object', properties: { ms: { type: 'integer' } }, required: ['ms'] },
  run: ({ ms }) => new Promise((resolve) => setTimeout(() => resolve('waited'), ms)) },
  stray: { description: 'Leaves a promise behind that is rejected.', effect: 'read', run() { void Promise.reject(new Error('stray')); return 'left' } } } }`

describe('being told to stop', () => {
  it('with a hundred calls under way refuses new ones, answers those, and ends with 0 [LIFE-01]', async () => {
    const { child, send, answer } = await talkTo(place({ execution: { maxConcurrent: 200 } }, { 'slow.mjs': slow }))
    const call = (id: number, ms: number): void =>
      send({ id, method: 'tools/call', params: { name: 'slow__wait', arguments: { ms } } })
    for (let id = 1; id <= 100; id++) call(id, 800)
    send({ id: 200, method: 'ping' })
    await answer(200)
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await sleep(150)
    call(300, 1)
    const refused = (await answer(300)) as Answer
    expect(refused.result.structuredContent.error.code).toBe('E_SHUTTING_DOWN')
    const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => answer(n + 1) as Promise<Answer>))
    expect(answers.map(({ result }) => result.content[0].text)).toEqual(Array(100).fill('waited'))
    expect(await ended).toEqual([0, null])
  })

  it('waits for calls that do not end only for its grace', async () => {
    const { child, send, answer } = await talkTo(place({}, { 'slow.mjs': slow }))
    send({ id: 1, method: 'tools/call', params: { name: 'slow__wait', arguments: { ms: 60_000 } } })
    send({ id: 2, method: 'ping' })
    await answer(2)
    const startedAt = performance.now()
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
    expect(performance.now() - startedAt).toBeLessThan(5_000)
  })
})

describe('a module that forgets a promise', () => {
  it('takes nothing else down when it is rejected [LIFE-08]', async () => {
    const { send, answer, stderr } = await talkTo(place({}, { 'slow.mjs': slow }))
    send({ id: 1, method: 'tools/call', params: { name: 'slow__stray', arguments: {} } })
    expect(((await answer(1)) as Answer).result.content[0].text).toBe('left')
    await until(() => stderr().includes('stray'))
    send({ id: 2, method: 'ping' })
    expect(((await answer(2)) as Answer).result).toEqual({})
  })
})
