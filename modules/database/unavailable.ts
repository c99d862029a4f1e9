import { isPegboardError, ToolError } from 'pegboard'

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens on its port',
  ENOTFOUND: 'its host name is unknown',
  EAI_AGAIN: 'its host name is unknown',
  ETIMEDOUT: 'it does not answer',
  ECONNRESET: 'it closed the connection',
  PROTOCOL_CONNECTION_LOST: 'it closed the connection',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is not trusted',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is not trusted',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  HANDSHAKE_SSL_ERROR: 'its certificate is not trusted',
  HANDSHAKE_NO_SSL_SUPPORT: 'it does not support TLS',
  '28P01': 'the login is refused',
  '28000': 'the login is refused',
  ER_ACCESS_DENIED_ERROR: 'the login is refused',
  ER_DBACCESS_DENIED_ERROR: 'the login has no access to that database',
  '3D000': 'no database has that name',
  ER_BAD_DB_ERROR: 'no database has that name',
  '53300': 'it has too many sessions',
  ER_CON_COUNT_ERROR: 'it has too many sessions',
}

/**
 * For failures of a server or the network. The driver's message may contain address or login, so it goes to the log
 * only.
 */
export function toUnavailableError(error: unknown): ToolError {
  if (isPegboardError(error)) return error as ToolError
  const { code, errors } = error as { code?: string; errors?: { code?: string }[] }
  const reason = REASONS[code ?? errors?.[0]?.code ?? '']
  return new ToolError(`The database cannot be reached${reason === undefined ? '' : `: ${reason}`}.`, {
    code: 'E_DB_UNAVAILABLE',
    hint: 'Try again later. The operator checks modules.database.config.connections and the log.',
    cause: error,
  })
}
