/** What drop-ins of these tests get for `pegboard`: the authoring surface without the server behind it. */
export { z } from 'zod'
export { ToolError } from '../../src/core/errors.ts'
export { defineModule } from '../../src/core/module.ts'
