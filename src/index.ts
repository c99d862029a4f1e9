export { z } from 'zod'
export { type App, createApp } from './app.ts'
export type {
  Answer,
  CallContext,
  Caller,
  Origin,
  Question,
  SentFile,
  ServerStatus,
  Services,
} from './core/context.ts'
export { type ErrorCode, errorCatalogue, isPegboardError, PegboardError, ToolError } from './core/errors.ts'
export type { Log } from './core/log.ts'
export {
  defineModule,
  type StartContext,
  type ToolDef,
  type ToolDraft,
  type ToolModule,
  type ToolView,
} from './core/module.ts'
export { type JsonSchema, type Schema, type StandardSchema, toSchema } from './core/schema.ts'
export type { Effect, Example, NameOf } from './core/tool.ts'
export { ToolContext } from './loader/tool-context.ts'
export { compileGlob, type Matcher } from './policy/glob.ts'
export {
  createPaths,
  type FolderEntry,
  type OpenFile,
  type OpenFolder,
  type Paths,
  type PathsOptions,
} from './policy/paths.ts'
