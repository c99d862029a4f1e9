import { type ErrorCode, ToolError } from 'pegboard'

const errorOf =
  (code: ErrorCode) =>
  (message: string, hint: string): ToolError =>
    new ToolError(message, { code, hint })

/** For parameters that the schema allows, but the tool does not. */
export const invalid = errorOf('E_VALIDATION')
/** For what the operator does not allow. */
export const denied = errorOf('E_DENIED_BY_POLICY')
export const notFound = errorOf('E_NOT_FOUND')
export const tooLarge = errorOf('E_TOO_LARGE')
export const overloaded = errorOf('E_OVERLOADED')
export const unavailable = errorOf('E_BACKEND_UNAVAILABLE')
