import { type GuardedFetch, isPegboardError, ToolError } from 'pegboard'

type Reason = 'INVALID_FORMAT' | 'INVALID_PROTOCOL' | 'DNS_RESOLUTION_FAILED' | 'PRIVATE_NETWORK_BLOCKED'

/**
 * Checks an address and its DNS answers before it is passed to an engine, because requests of external engines cannot
 * be guarded. Requests made here are checked again.
 * @returns the address
 * @throws ToolError E_VALIDATION, E_DNS, E_SSRF_BLOCKED, with fixed reasons
 */
export async function checkAddress(address: string, fetch: GuardedFetch): Promise<string> {
  const url = URL.canParse(address.trim()) ? new URL(address.trim()) : undefined
  if (!url)
    throw createRefusal(
      'E_VALIDATION',
      'INVALID_FORMAT',
      'URL is not a whole address.',
      'Give one with https:// or http://.',
    )
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw createRefusal(
      'E_VALIDATION',
      'INVALID_PROTOCOL',
      'URL must use HTTP or HTTPS protocol.',
      'Use http or https.',
    )
  try {
    await fetch.check(url)
  } catch (error) {
    if (!isPegboardError(error)) throw error
    if (error.code === 'E_SSRF_BLOCKED')
      throw createRefusal('E_SSRF_BLOCKED', 'PRIVATE_NETWORK_BLOCKED', error.message, error.hint)
    if (error.code === 'E_DNS') throw createRefusal('E_DNS', 'DNS_RESOLUTION_FAILED', error.message, error.hint)
    throw error
  }
  return url.href
}

const createRefusal = (
  code: 'E_VALIDATION' | 'E_DNS' | 'E_SSRF_BLOCKED',
  reason: Reason,
  message: string,
  hint: string,
): ToolError => new ToolError(message, { code, hint, data: { reason } })
