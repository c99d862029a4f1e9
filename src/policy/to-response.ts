import type { Dispatcher } from 'undici'
import { PegboardError } from '../core/errors.ts'

const NO_BODY = new Set([101, 204, 205, 304])

/** Whether a response with this status has no body. */
export const isBodyless = (status: number): boolean => NO_BODY.has(status)

/**
 * Converts a response of undici into one of `fetch`. `body` must be null if the status allows none.
 * @throws PegboardError E_HTTP_PROTOCOL for a status above 599, such as 999, which `Response` does not allow
 */
export function toResponse(
  { statusCode, headers }: Dispatcher.ResponseData,
  body: ConstructorParameters<typeof Response>[0],
): Response {
  if (statusCode > 599)
    throw new PegboardError(
      'E_HTTP_PROTOCOL',
      `The address answered with HTTP ${statusCode}, which is not a valid status.`,
    )
  const converted = new Headers()
  for (const [name, value] of Object.entries(headers))
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) converted.append(name, one)
  return new Response(body, { status: statusCode, headers: converted })
}
