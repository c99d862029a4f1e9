import type { PegboardError } from '../core/errors.ts'
import { removeInvisible } from '../core/invisible-characters.ts'
import { mapTexts } from '../core/map-texts.ts'
import type { Tool } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { copyFailure } from './inspect-data.ts'

/** True for tools of modules that return text of other systems. Text of servers is cleaned when it arrives. */
const mayReturnForeignText = ({ origin, openWorld }: Tool): boolean => origin === 'module' && openWorld

/** Removes what a person would not see from the result of a module that reaches other systems. */
export function removeHiddenText(tool: Tool, result: ToolResult): ToolResult {
  if (!mayReturnForeignText(tool) || result.kind !== 'value') return result
  const value = mapTexts(result.value, removeInvisible, true)
  return value === result.value ? result : { ...result, value }
}

/** Removes what a person would not see from the error of such a tool. */
export function removeHiddenTextFromError(tool: Tool, failure: PegboardError): PegboardError {
  if (!mayReturnForeignText(tool)) return failure
  return copyFailure(failure, {
    message: removeInvisible(failure.message),
    hint: removeInvisible(failure.hint),
    data: mapTexts(failure.data, removeInvisible, true),
    cause: failure.cause,
  })
}
