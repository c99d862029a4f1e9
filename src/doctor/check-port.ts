import { createServer } from 'node:net'
import type { Reporter } from './findings.ts'

const ANSWER_MS = 2_000

/**
 * Checks that Pegboard can listen there, or does so already.
 * @param isChosen the file names the port, so Pegboard is meant to listen there
 */
export async function checkPort(host: string, port: number, isChosen: boolean, report: Reporter): Promise<void> {
  const at = `${host}:${port}`
  const code = port === 0 ? undefined : await listenFault(host, port)
  if (code === undefined) report.passed({ about: 'port', message: `${at} is free` })
  else if (code === 'EADDRINUSE') {
    if (await isPegboard(host, port)) report.passed({ about: 'port', message: `Pegboard runs at ${at}` })
    else
      report.found({
        code: isChosen ? 'port-in-use' : 'default-port-in-use',
        about: 'port',
        message: `Another program uses ${at}.`,
      })
  } else report.found({ code: 'port-forbidden', about: 'port', message: `Pegboard cannot listen at ${at} (${code}).` })
}

function listenFault(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}

/** Pegboard answers there without a token. */
async function isPegboard(host: string, port: number): Promise<boolean> {
  const loopback = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host
  const name = loopback.includes(':') ? `[${loopback}]` : loopback
  try {
    const answer = await fetch(`http://${name}:${port}/health`, {
      signal: AbortSignal.timeout(ANSWER_MS),
      redirect: 'error',
    })
    const { status, eventLoopLagMs } = (await answer.json()) as { status?: unknown; eventLoopLagMs?: unknown }
    return status === 'ok' && typeof eventLoopLagMs === 'number'
  } catch {
    return false
  }
}
