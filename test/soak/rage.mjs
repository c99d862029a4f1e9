import { request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { failingBelow, TOKEN } from './pegboard.mjs'

const pick = (all) => all[Math.floor(Math.random() * all.length)]

/** Each of them once, in any order, before one comes again: all has happened before the first connection to what is left. */
function deck(all) {
  let left = []
  return () => {
    if (left.length === 0) left = [...all]
    return left.splice(Math.floor(Math.random() * left.length), 1)[0]
  }
}

/** Tools of the server that fails on request, with their arguments. */
const FAULTS = [
  ['hang'],
  ['hang_reporting', { ms: 20 }],
  ['crash'],
  ['half_line'],
  ['noise'],
  ['noise_for_ever'],
  ['long_line', { bytes: 10_000_000 }],
  ['endless_line', { megabytes: 20 }],
  ['flood_lists', { count: 1_000 }],
  ['flood_logs', { count: 2_000 }],
  ['wrong_id'],
  ['answer_twice'],
  ['no_content'],
  ['odd_content'],
  ['odd_blocks'],
  ['no_result'],
  ['stop_reading'],
]
const HTTP_FAULTS =
  '401 403 404 429 500 502 503 429_later 503_later reset reset_midway redirect html not_json never cut ended'.split(' ')

/** Entries of servers that fail by themselves while they are configured. */
export const failing = (evil) => ({
  bad: { ...evil(), timeoutMs: 1_500 },
  hung: { ...evil('--hang-start'), start: 'background', connectTimeoutMs: 2_000 },
  listless: { ...evil('--hang-list'), start: 'background', connectTimeoutMs: 2_000 },
  leaving: { ...evil('--exit-start'), start: 'background' },
  endless: { ...evil('--endless-start'), start: 'background', connectTimeoutMs: 2_000 },
  bombs: { ...evil('--bombs', '9'), start: 'background' },
  flips: { ...evil('--flip-flop'), start: 'background' },
  noisy: { ...evil('--noise'), start: 'background' },
  pages: { ...evil('--fresh-cursors'), start: 'background' },
  missing: { command: 'no-such-program-anywhere', start: 'background' },
  refused: { url: 'http://127.0.0.1:9/mcp', start: 'background' },
})

/**
 * Causes faults until told to stop: faulty servers and badly behaved clients.
 * @returns how often each fault happened
 */
export function rage({ server, ledger, badHttp, signal }) {
  const injected = {}
  const count = (what) => {
    injected[what] = (injected[what] ?? 0) + 1
  }
  /** Repeats with a random pause up to this length. */
  const again = async (pauseMs, work) => {
    while (!signal.aborted) {
      await work()
      await sleep(Math.random() * pauseMs, undefined, { signal }).catch(() => undefined)
    }
  }
  const [fault, httpFault] = [deck(FAULTS), deck(HTTP_FAULTS)]
  const peers = []
  const opened = async () => {
    const peer = server.open()
    peers.push(peer)
    await peer.connect()
    return peer
  }
  const onDemand = async () => {
    const peer = await opened()
    await again(300, async () => {
      const [tool, args] = fault()
      count(tool)
      await Promise.all([ledger.bad(peer, `bad__${tool}`, args), ledger.echo(peer, 'bad__echo')])
    })
  }
  const overHttp = async () => {
    const peer = await opened()
    await again(300, async () => {
      const kind = httpFault()
      count(`http ${kind}`)
      await fetch(new URL(`/fault?kind=${kind}`, badHttp), { method: 'POST' })
      await ledger.echo(peer, 'badhttp__echo')
    })
  }
  const kill = () =>
    again(3_000, async () => {
      const pid = pick(failingBelow(server.pid))
      if (pid === undefined) return
      count('SIGKILL of a server')
      try {
        process.kill(pid, 'SIGKILL')
      } catch {}
    })
  const running = [onDemand(), onDemand(), onDemand(), overHttp(), kill()]
  return {
    injected,
    async over() {
      await Promise.all(running)
      for (const peer of peers) {
        ledger.left(peer)
        await leave(server, peer)
      }
    },
  }
}

const headersOf = (peer) => ({
  authorization: `Bearer ${TOKEN}`,
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-session-id': peer.session(),
  'mcp-protocol-version': '2025-06-18',
})

/** Requests of a stdio client to a failing server, until told to stop. */
export async function rageOnStdio(client, ledger, signal) {
  const faults = ['hang', 'crash', 'noise', 'wrong_id', 'answer_twice', 'half_line', 'stop_reading']
  for (let turn = 0; !signal.aborted; turn++) {
    await Promise.all([ledger.bad(client, `bad__${faults[turn % faults.length]}`), ledger.echo(client, 'bad__echo')])
    await sleep(200)
  }
}

/** Ends a session on its own connection. */
export async function leave(server, peer) {
  await new Promise((done) => {
    const asked = request(server.url, { method: 'DELETE', headers: headersOf(peer), agent: false })
    asked
      .once('close', done)
      .on('response', (response) => response.resume())
      .on('error', () => undefined)
      .end()
  })
  peer.close()
}

/** Clients that connect and disconnect, properly or not, until told to stop. */
export async function comeAndGo({ server, ledger, signal, tool }) {
  const clients = { ended: 0, dropped: 0, 'gone in a call': 0, 'never reading': 0 }
  const raw = (peer, name, args) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 99, method: 'tools/call', params: { name, arguments: args } })
    const { hostname, port, pathname } = new URL(server.url)
    const head = Object.entries({
      host: `${hostname}:${port}`,
      ...headersOf(peer),
      'content-length': Buffer.byteLength(body),
    })
    const socket = connect(Number(port), hostname).on('error', () => undefined)
    socket.write(
      `POST ${pathname} HTTP/1.1\r\n${head.map(([key, value]) => `${key}: ${value}`).join('\r\n')}\r\n\r\n${body}`,
    )
    ledger.abandon()
    return socket
  }
  while (!signal.aborted) {
    const peer = server.open()
    await ledger.comes(peer, tool)
    const fate = Math.random()
    if (fate < 0.5) {
      clients.ended++
      await leave(server, peer)
    } else if (fate < 0.7) {
      clients.dropped++
      peer.close()
    } else if (fate < 0.9) {
      clients['gone in a call']++
      const socket = raw(peer, 'work__wait', { ms: 2_000 })
      await sleep(Math.random() * 200)
      socket.destroy()
      await leave(server, peer)
    } else {
      clients['never reading']++
      // More than the kernel buffers for a reader.
      const socket = raw(peer, 'quiet__long_line', { bytes: 1_900_000 })
      socket.pause()
      setTimeout(() => socket.destroy(), 2_000)
      peer.close()
    }
    ledger.left(peer)
    await sleep(100 + Math.random() * 200)
  }
  return clients
}
