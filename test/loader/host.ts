/** The `pegboard` package for drop-ins of these tests: the authoring API without the server. */
export { z } from 'zod'
export { ToolError } from '../../src/core/errors.ts'
export { defineModule } from '../../src/core/module.ts'
