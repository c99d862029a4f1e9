import { type Connect, isPegboardError } from 'pegboard'
import type { DirectoryBoard } from './board-directory.ts'
import { loginOf } from './board-directory.ts'
import { listOf, numberOf, textOf } from './json.ts'

const MAX_BYTES = 64 * 1024
const MAX_CALLERS = 100
const MAX_VERSION_LINES = 5
/** For all questions together. */
const TOTAL_MS = 10_000

export interface FingerSettings {
  readonly port: number
  readonly timeout_ms: number
}

/** Host to query: the finger service, otherwise the login service. */
export const fingerHost = (board: DirectoryBoard): string | undefined =>
  board.services.find(({ protocol, address }) => protocol === 'finger' && address !== '')?.address ??
  loginOf(board)?.address

/** One query of the finger protocol (RFC 1288): sends a line, returns the response. @throws what `connect` throws */
async function queryHost(connect: Connect, host: string, question: string, how: FingerSettings, signal: AbortSignal) {
  const ending = AbortSignal.any([signal, AbortSignal.timeout(how.timeout_ms)])
  const socket = await connect(host, how.port, { signal: ending, timeoutMs: how.timeout_ms })
  const parts: Buffer[] = []
  let bytes = 0
  const abort = (): void => void socket.destroy(ending.reason)
  ending.addEventListener('abort', abort, { once: true })
  try {
    socket.write(`${question}\r\n`)
    for await (const part of socket as AsyncIterable<Buffer>) {
      parts.push(part)
      bytes += part.length
      if (bytes >= MAX_BYTES) break
    }
  } finally {
    ending.removeEventListener('abort', abort)
    socket.destroy()
  }
  return stripControls(Buffer.concat(parts).subarray(0, MAX_BYTES))
}

/** Removes colour codes and cursor commands; keeps line breaks. */
function stripControls(bytes: Buffer): string {
  const text = bytes.toString('utf8')
  return (text.includes('\ufffd') ? bytes.toString('latin1') : text)
    .replaceAll(/\x01[^\r\n]?/g, '')
    .replaceAll(/\x1b\[[0-9;?]*[A-Za-z]/g, '')
    .replaceAll(/\r\n?/g, '\n')
    .replaceAll(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, '')
    .trim()
}

/** The board's current status, or a text that says why it does not answer. */
export async function probe(
  connect: Connect,
  host: string,
  how: FingerSettings,
  signal: AbortSignal,
  onProgress: (done: number, total: number, message: string) => void,
): Promise<Readonly<Record<string, unknown>>> {
  const whole = AbortSignal.any([signal, AbortSignal.timeout(TOTAL_MS)])
  // After a first unanswered question no more are sent.
  const answers = async (question: string): Promise<string | undefined> => {
    try {
      return (await queryHost(connect, host, question, how, whole)) || undefined
    } catch (error) {
      signal.throwIfAborted()
      if (isPegboardError(error) && error.code === 'E_SSRF_BLOCKED') throw error
      return undefined
    }
  }
  try {
    onProgress(0, 3, `asking ${host} for its version`)
    const version = await answers('?ver')
    if (version === undefined)
      return {
        online_query_result: `finger to ${host} failed: the board may be offline, behind a firewall, or without a finger service`,
      }
    onProgress(1, 3, 'asking how long it runs')
    const uptime = uptimeOf(await answers('?uptime'))
    onProgress(2, 3, 'asking who is on')
    const callers = callersOf(await answers('?active-users.json'))
    return {
      synchronet_version: version.split('\n').slice(0, MAX_VERSION_LINES).join('\n').slice(0, 1_000),
      ...uptime,
      ...(callers === undefined ? {} : { online_callers: callers, online_count: callers.length }),
    }
  } catch (error) {
    if (!isPegboardError(error) || error.code !== 'E_SSRF_BLOCKED') throw error
    return { online_query_result: `finger to ${host} was not tried: the address is not public` }
  }
}

/** Parses `Duration: <seconds>`: start in seconds since the epoch, as text, and the board's time. */
function uptimeOf(text = '') {
  const [first = '', , began = ''] = text.split('\n')
  const seconds = Number(/Duration:\s*(\d{1,12})/i.exec(first)?.[1] ?? 0)
  if (seconds === 0) return {}
  return {
    bbs_uptime_seconds: seconds,
    bbs_uptime_human: duration(seconds),
    bbs_started_at: began.trim().slice(0, 100),
  }
}

function duration(seconds: number): string {
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor((seconds % 86_400) / 3_600), 'h'],
    [Math.floor((seconds % 3_600) / 60), 'm'],
  ] as const
  return parts.flatMap(([count, unit]) => (count > 0 ? [`${count}${unit}`] : [])).join(' ') || '0m'
}

function callersOf(text = '') {
  try {
    const users: unknown = JSON.parse(text)
    if (!Array.isArray(users)) return undefined
    return listOf(users)
      .slice(0, MAX_CALLERS)
      .map(({ name, action, node, prot }) => ({
        alias: textOf(name).slice(0, 100),
        doing: textOf(action).slice(0, 200),
        node: numberOf(node),
        connection: textOf(prot).slice(0, 40),
      }))
  } catch {
    return undefined
  }
}
