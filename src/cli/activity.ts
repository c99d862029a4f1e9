import { plain } from '../core/plain.ts'
import { sentenceOf } from './open.ts'

type Entry = Readonly<Record<string, unknown>>

/** A line for a person at the terminal where `serve` runs, of an entry of the log; undefined for what they need not see. */
export function activityOf(line: string): string | undefined {
  const entry = JSON.parse(line) as Entry
  const { level, time } = entry
  if (level === 'warn' || level === 'error') return sentenceOf(line)
  const text = textOf(entry)
  // What a client or a server wrote may steer a terminal.
  return text === undefined ? undefined : plain(`${String(time).slice(11, 19)} ${text}`)
}

function textOf({ message, ...fields }: Entry): string | undefined {
  switch (message) {
    case 'call':
      return `${fields['tool']}: ${fields['outcome']}, ${fields['ms']} ms (${fields['principal']})`
    case 'a client connected':
      return `${fields['client'] || 'a client'} connected (${fields['principal']})`
    case 'a request without a valid token was refused':
      return `refused a request without a valid token from ${fields['from']}`
    case 'configuration reloaded':
      return `configuration reloaded: ${(fields['changed'] as readonly string[]).join(', ')}`
    default:
      return typeof message === 'string' && message.endsWith(' loaded') ? message : undefined
  }
}
