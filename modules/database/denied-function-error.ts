import { ToolError } from 'pegboard'

/** The error for a function that does more than its statement may. */
export const createDeniedFunctionError = (name: string, reads: boolean): ToolError =>
  new ToolError(`The function ${name} can do more than ${reads ? 'read' : 'change rows'}.`, {
    code: reads ? 'E_READ_ONLY' : 'E_DENIED_BY_POLICY',
    hint: 'Leave it out, or ask the operator to add it to allowed_functions of the connection.',
  })
