import { PegboardError } from '../core/errors.ts'

/** For a module whose definition is wrong. @param message ends with a period, or gets one */
export const createShapeError = (message: string): PegboardError =>
  new PegboardError('E_MODULE_SHAPE', /[.?]$/.test(message) ? message : `${message}.`)
