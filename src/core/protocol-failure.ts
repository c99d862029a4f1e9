const BRAND = Symbol.for('pegboard.protocol-failure')

/** A JSON-RPC error from an upstream server. The server layer decides how much of it is passed on. */
export class ProtocolFailure extends Error {
  readonly [BRAND] = true
  readonly code: number
  readonly data: unknown

  constructor(code: number, message: string, data?: unknown) {
    super(message)
    this.name = 'ProtocolFailure'
    this.code = code
    this.data = data
  }
}

export function isProtocolFailure(error: unknown): error is ProtocolFailure {
  try {
    return typeof error === 'object' && error !== null && (error as { [BRAND]?: unknown })[BRAND] === true
  } catch {
    return false
  }
}
