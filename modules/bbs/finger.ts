import { type Connect, isPegboardError } from 'pegboard'
import { type DirectoryBoard, loginServiceOf } from './board-directory.ts'
import { listOf, numberOf, textOf } from './json.ts'

const MAX_BYTES = 64 * 1024
const MAX_CALLERS = 100
const MAX_VERSION_LINES = 5
/** For all queries together. */
const TOTAL_TIMEOUT_MS = 10_000

export interface FingerSettings {
  readonly port: number
  readonly timeout_ms: number
}

/** Host to query: the finger service, otherwise the login service. */
export const fingerHost = (board: DirectoryBoard): string | undefined =>
  board.services.find(({ protocol, address }) => protocol === 'finger' && address !== '')?.address ??
  loginServiceOf(board)?.address

/** One query of the finger protocol (RFC 1288): sends a line, returns the response. @throws what `connect` throws */
async function queryHost(
  connect: Connect,
  host: string,
  query: string,
  { port, timeout_ms }: FingerSettings,
  callSignal: AbortSignal,
): Promise<string> {
  const signal = AbortSignal.any([callSignal, AbortSignal.timeout(timeout_ms)])
  const socket = await connect(host, port, { signal, timeoutMs: timeout_ms })
  const chunks: Buffer[] = []
  let size = 0
  const abort = (): void => void socket.destroy(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    socket.write(`${query}\r\n`)
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      size += chunk.length
      if (size >= MAX_BYTES) break
    }
  } finally {
    signal.removeEventListener('abort', abort)
    socket.destroy()
  }
  return stripControls(Buffer.concat(chunks).subarray(0, MAX_BYTES))
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
export async function queryStatus(
  connect: Connect,
  host: string,
  settings: FingerSettings,
  signal: AbortSignal,
  onProgress: (done: number, total: number, message: string) => void,
): Promise<Readonly<Record<string, unknown>>> {
  const totalSignal = AbortSignal.any([signal, AbortSignal.timeout(TOTAL_TIMEOUT_MS)])
  const query = async (line: string): Promise<string | undefined> => {
    try {
      return (await queryHost(connect, host, line, settings, totalSignal)) || undefined
    } catch (error) {
      signal.throwIfAborted()
      if (isPegboardError(error) && error.code === 'E_SSRF_BLOCKED') throw error
      return undefined
    }
  }
  try {
    onProgress(0, 3, `asking ${host} for its version`)
    const version = await query('?ver')
    // A host that does not answer the first query gets no other.
    if (version === undefined)
      return {
        online_query_result: `finger to ${host} failed: the board may be offline, behind a firewall, or without a finger service`,
      }
    onProgress(1, 3, 'asking how long it runs')
    const uptime = parseUptime(await query('?uptime'))
    onProgress(2, 3, 'asking who is on')
    const callers = parseCallers(await query('?active-users.json'))
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
function parseUptime(text = '') {
  const [duration = '', , startTime = ''] = text.split('\n')
  const seconds = Number(/Duration:\s*(\d{1,12})/i.exec(duration)?.[1] ?? 0)
  if (seconds === 0) return {}
  return {
    bbs_uptime_seconds: seconds,
    bbs_uptime_human: formatDuration(seconds),
    bbs_started_at: startTime.trim().slice(0, 100),
  }
}

function formatDuration(seconds: number): string {
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor((seconds % 86_400) / 3_600), 'h'],
    [Math.floor((seconds % 3_600) / 60), 'm'],
  ] as const
  return parts.flatMap(([count, unit]) => (count > 0 ? [`${count}${unit}`] : [])).join(' ') || '0m'
}

function parseCallers(text = '') {
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
