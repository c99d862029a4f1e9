import { formatCount } from '../core/format-count.ts'
import { toPrintable } from '../core/printable.ts'
import { formatLogEntry } from './open-app.ts'

type Entry = Readonly<Record<string, unknown>>

/** A log entry as a line for the terminal where `serve` runs; undefined for entries that are not shown. */
export function formatActivity(line: string): string | undefined {
  const entry = JSON.parse(line) as Entry
  const { level, time } = entry
  if (level === 'warn' || level === 'error') return formatLogEntry(line)
  const text = formatEntry(entry)
  // Text of a client or server may contain terminal commands.
  return text === undefined ? undefined : toPrintable(`${String(time).slice(11, 19)} ${text}`)
}

function formatEntry({ message, ...fields }: Entry): string | undefined {
  switch (message) {
    case 'call':
      return `${fields['tool']}: ${fields['outcome']}, ${fields['ms']} ms (${fields['principal']})`
    case 'a client connected':
      return `${fields['client'] || 'a client'} connected (${fields['principal']})`
    case 'a request without a valid token was refused':
      return `refused a request without a valid token from ${fields['from']}`
    case 'an access token was refused':
      return `refused an access token: ${fields['reason']}`
    case 'configuration reloaded':
      return `configuration reloaded: ${(fields['changed'] as readonly string[]).join(', ')}`
    case 'stopping': {
      const calls = Number(fields['waitsForCalls'] ?? 0)
      return `stopping after ${fields['signal']}${calls > 0 ? `, and waiting for ${formatCount(calls, 'running call')}` : ''}`
    }
    default:
      return typeof message === 'string' && message.endsWith(' loaded') ? message : undefined
  }
}
