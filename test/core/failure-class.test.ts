import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  classifyDisconnect,
  classifyFailure,
  classifyThrown,
  type FailureClass,
  failureClasses,
  hintOf,
} from '../../src/core/failure-class.ts'

interface RealMessage {
  /** npm package and version, or repository and issue that quotes it. */
  readonly server: string
  readonly rpcCode?: number
  /** The server did not start; `message` is the line of its stderr that Pegboard shows. */
  readonly start?: boolean
  readonly message: string
  readonly class: FailureClass
  /** The rules were first measured on these messages, before anyone looked at them to write rules. */
  readonly heldBack?: boolean
}

const messages = readFileSync(new URL('failure-messages.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as RealMessage)
const found = ({ message, rpcCode, start }: RealMessage): FailureClass | undefined =>
  start
    ? classifyDisconnect(`it exited with code 1: ${message}`)
    : classifyFailure(message, rpcCode === undefined ? {} : { rpcCode })

describe('the class of a failure', () => {
  it('is right for 249 of 255 real messages of 86 servers, wrong for 3, and missing for 3', () => {
    const right = messages.filter((one) => found(one) === one.class)
    const missing = messages.filter((one) => found(one) === undefined)
    expect(new Set(messages.map(({ server }) => server.replace(/(?<=.)@[\d.]+$/, ''))).size).toBe(86)
    expect([messages.length, right.length, missing.length]).toEqual([255, 249, 3])
  })

  it('never blames the arguments when something is unreachable or missing', () => {
    const blamed = messages.filter(
      (one) => ['network', 'timeout', 'rate', 'server_setup'].includes(one.class) && found(one) === 'argument',
    )
    expect(blamed).toEqual([])
    for (const one of ['network', 'timeout', 'rate', 'server_setup', 'login', 'bug'] as const)
      expect(hintOf(one)).not.toMatch(/argument|correct/i)
  })

  it('follows the status of a response, except where servers use one status for several failures', () => {
    const of = (status: number, text = '') => classifyFailure(text, { status })
    expect([401, 403, 404, 408, 422, 429, 500, 502, 503, 504].map((status) => of(status))).toEqual([
      'login',
      'permission',
      'not_found',
      'timeout',
      'argument',
      'rate',
      'bug',
      'network',
      'network',
      'timeout',
    ])
    expect(of(404, 'invalid token')).toBe('not_found')
    expect(of(403, 'API rate limit exceeded for user')).toBe('rate')
    expect(of(400, 'API key not valid. Please pass a valid API key.')).toBe('login')
    expect(of(500, 'connect ECONNREFUSED 10.0.0.1:5432')).toBe('network')
    expect(of(304)).toBeUndefined()
  })

  it('follows the code of a JSON-RPC error if the words tell nothing', () => {
    expect(classifyFailure('no', { rpcCode: -32602 })).toBe('argument')
    expect(classifyFailure('no', { rpcCode: -32601 })).toBe('not_found')
    expect(classifyFailure('no', { rpcCode: -32603 })).toBeUndefined()
    expect(classifyFailure('socket hang up', { rpcCode: -32602 })).toBe('network')
  })

  it('of a server that is not connected is never a class that blames the caller', () => {
    expect(classifyDisconnect('it exited with code 1')).toBe('server_setup')
    expect(classifyDisconnect('it exited with code 1: Error: invalid arguments')).toBe('server_setup')
    expect(classifyDisconnect('it exited with code 1: GITHUB_TOKEN is not set')).toBe('login')
    expect(classifyDisconnect('command not found: uvx')).toBe('server_setup')
    expect(classifyDisconnect('no answer within 20 s')).toBe('timeout')
    expect(classifyDisconnect('ECONNREFUSED')).toBe('network')
    expect(classifyDisconnect('closed')).toBe('network')
  })

  it('of a thrown system error comes from its code, or from that of a cause', () => {
    const fetchFailed = new TypeError('fetch failed', {
      cause: Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }),
    })
    expect(classifyThrown(fetchFailed)).toEqual({ class: 'network', code: 'ECONNREFUSED' })
    const noProgram = Object.assign(new Error('spawn'), { code: 'ENOENT', syscall: 'spawn ffmpeg' })
    expect(classifyThrown(noProgram)).toEqual({ class: 'server_setup', code: 'ENOENT' })
    expect(classifyThrown(new TypeError('x is undefined'))).toBeUndefined()
    const hostile = new Error('x')
    Object.defineProperty(hostile, 'code', {
      get: () => {
        throw new Error('y')
      },
    })
    expect(classifyThrown(hostile)).toBeUndefined()
  })

  it('reads only the beginning and the end of a long text', () => {
    const filler = 'x'.repeat(1_000_000)
    expect(classifyFailure(`ECONNREFUSED ${filler}`)).toBe('network')
    expect(classifyFailure(`${filler} ECONNREFUSED`)).toBe('network')
    expect(classifyFailure(`${filler} ECONNREFUSED ${filler}`)).toBeUndefined()
  })

  it('has a short hint, and says whether a retry can help', () => {
    for (const [name, { hint, meaning }] of Object.entries(failureClasses)) {
      expect(hint.length, name).toBeLessThan(90)
      expect(meaning, name).toMatch(/^[A-Z].*\.$/)
    }
    const retryable = Object.entries(failureClasses).flatMap(([name, one]) => (one.retryable ? [name] : []))
    expect(retryable).toEqual(['network', 'timeout', 'rate'])
  })
})
