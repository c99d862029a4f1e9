import { isRecord } from '../core/is-record.ts'
import { bareName, readCall } from './execute_tool.ts'

/** The name of the tool that a request runs, also through `execute_tool`. */
export function calledName(name: string, input: unknown): string {
  if (bareName(name) !== 'execute_tool' || !isRecord(input)) return name
  try {
    return readCall(input).name
  } catch {
    // The call itself reports the error.
    return name
  }
}
