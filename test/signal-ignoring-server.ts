import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import type { Answer } from './app.ts'
import { type Place, place, talkTo } from './process.ts'
import { alive, until } from './upstream/host.ts'

/** A server that ignores the end of its stdin and SIGTERM, and starts a process that does too. */
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

/** Serves with a local package that `npx` runs. Returns all its processes: npx, its shell, the server and its child. */
export async function serving(): Promise<{
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
  // Connected, so that Pegboard does not stop it for being slow.
  for (let id = 1; ; id++) {
    talk.send({ id, method: 'tools/list' })
    const names = ((await talk.answer(id)) as Answer).result.tools.map(({ name }: { name: string }) => name)
    if (names.includes('npx__stay')) break
    await sleep(50)
  }
  return { talk, pids }
}

/** The processes between a process and ours: npx and its shell. */
function ancestors(pid: number, ours: number): number[] {
  const found: number[] = []
  for (let at = pid; ; ) {
    const parent = Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${at}/stat`, 'latin1'))?.[1])
    if (parent === ours || !(parent > 1)) return found
    found.push(parent)
    at = parent
  }
}
