import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { openHttp, smallEnvironment, startStdio } from '../../bench/client.mjs'
import { splitLines } from '../../bench/lines.mjs'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const MAIN = process.env.PEGBOARD_MAIN ?? here('../../dist/cli/main.js')
export const TOKEN = 'soak-token-that-is-long-enough'
/** A server that was removed from the configuration has exited by then, even on a busy machine. */
const ENDS_MS = 60_000
const FLAGS = ['--expose-gc', '--import', here('probe.mjs')]
const more = () => (process.env.NODE_FLAGS ?? '').split(' ').filter(Boolean)
const environment = (place) => ({ PEGBOARD_STATE_DIR: place.state, HOME: place.folder })

/** The built server on HTTP. */
export async function startHttp(place, { probe = true } = {}) {
  const args = [
    ...(probe ? FLAGS : []),
    ...more(),
    MAIN,
    'serve',
    '--http',
    '--json',
    '--port',
    '0',
    '--config',
    place.config,
  ]
  const child = spawn(process.execPath, args, {
    env: smallEnvironment(environment(place)),
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const ended = once(child, 'exit')
  let said = ''
  child.stderr.on('data', (chunk) => {
    said = (said + chunk).slice(-20_000)
  })
  const url = await new Promise((resolve, reject) => {
    child.stdout.on(
      'data',
      splitLines((line) => resolve(JSON.parse(line).url)),
    )
    ended.then(() => reject(new Error(`the server ended: ${said}`)))
  })
  for (;;) {
    if ((await fetch(new URL('/ready', url))).ok) break
    await sleep(20)
  }
  return { ...handle(child, ended), url, said: () => said, open: () => openHttp({ url, token: TOKEN }) }
}

/** The built server on stdio, and its client. */
export async function startOnStdio(place) {
  const args = [...FLAGS, MAIN, 'serve', '--stdio', '--config', place.config]
  const client = startStdio({ args, env: environment(place), ipc: true })
  await client.connect()
  return { ...handle(client.child, once(client.child, 'exit')), client }
}

/** The process that measures calls. */
export async function startTiming({ url }) {
  const child = fork(here('latency.mjs'), [url])
  const ended = once(child, 'exit')
  const ask = async (what, given) => {
    child.send({ what, given })
    const [answer] = await Promise.race([
      once(child, 'message'),
      ended.then(() => Promise.reject(new Error('the process that takes the time ended'))),
    ])
    return answer
  }
  await once(child, 'message')
  return {
    measure: (tools, ms) => ask('measure', { tools, ms }),
    async leave() {
      await ask('leave')
      child.disconnect()
      await ended
    },
  }
}

/** An aborted run leaves nothing behind. */
function handle(child, ended) {
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  child.once('exit', () => process.off('exit', end))
  return {
    child,
    ended,
    pid: child.pid,
    /** Delay of its event loop since the last request. */
    async lag() {
      child.send('lag')
      return (await once(child, 'message'))[0]
    },
    /** Milliseconds since its start that the event loop thread ran, and that it waited for a processor. */
    spent() {
      const [ran, waited] = readFileSync(`/proc/${child.pid}/schedstat`, 'latin1').split(' ').map(Number)
      return { ran: ran / 1e6, waited: waited / 1e6 }
    },
    /**
     * Resources of the process after the failing servers, which must not be configured now, have exited and garbage was
     * collected. Processes that restart all the time would appear in only some samples.
     */
    async sample() {
      const until = Date.now() + ENDS_MS
      while (failingBelow(child.pid).length > 0 && Date.now() < until) await sleep(50)
      const stuck = failingBelow(child.pid).length
      child.send('sample')
      const [inside] = await once(child, 'message')
      const children = below(child.pid).length
      return { at: Date.now(), ...inside, descriptors: descriptorsOf(child.pid), children, stuck }
    },
    /** @returns its exit code or signal, and the processes that it left running */
    async stop(signal = 'SIGTERM') {
      const children = below(child.pid)
      child.kill(signal)
      const [code, by] = await ended
      const until = Date.now() + 10_000
      while (children.some(alive) && Date.now() < until) await sleep(50)
      return { code: code ?? by, left: children.filter(alive).length }
    },
  }
}

function descriptorsOf(pid) {
  const descriptors = readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).replace(/\d+/g, '')
    } catch {
      return 'gone'
    }
  })
  return descriptors.filter((name) => name !== 'gone').length
}

const statOf = (pid) => {
  try {
    return /\) (\S) (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return null
  }
}

export const alive = (pid) => (statOf(pid)?.[1] ?? 'Z') !== 'Z'

/** All descendants of a process. */
export function below(pid) {
  const parents = new Map()
  for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one))) {
    const stat = statOf(name)
    if (stat && stat[1] !== 'Z') parents.set(Number(name), Number(stat[2]))
  }
  const under = (top) => [...parents].filter(([, parent]) => parent === top).flatMap(([one]) => [one, ...under(one)])
  return under(pid)
}

/** The failing descendants. The healthy ones are the same program with other arguments. */
export const failingBelow = (pid) =>
  below(pid).filter((one) => {
    try {
      const words = readFileSync(`/proc/${one}/cmdline`, 'latin1')
      return words.includes('evil.mjs') && !words.includes('--quiet')
    } catch {
      return false
    }
  })
