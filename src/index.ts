export { z } from 'zod'
export { type App, createApp } from './app/app.ts'
export type {
  Answer,
  CallContext,
  Caller,
  Origin,
  Question,
  SentFile,
  ServerStatus,
  Services,
  SharedFile,
} from './core/caller.ts'
export { type ErrorCode, errorCatalogue, isPegboardError, PegboardError, ToolError } from './core/errors.ts'
export { type FailureClass, failureClasses } from './core/failure-class.ts'
export type { Fetch, FetchInit } from './core/fetch-types.ts'
export { removeInvisible } from './core/invisible-characters.ts'
export type { Log } from './core/log.ts'
export {
  defineModule,
  type ModuleResource,
  type PromptSection,
  type SectionView,
  type SetupStep,
  type StartContext,
  type ToolDef,
  type ToolDraft,
  type ToolModule,
  type ToolView,
} from './core/module.ts'
export { parseJson } from './core/parse-json-text.ts'
export type { Profile } from './core/profile.ts'
export { redact, redactUrl } from './core/redact.ts'
export { type JsonSchema, type Schema, type StandardSchema, toSchema } from './core/schema.ts'
export { scrub } from './core/scrub.ts'
export { createSemaphore } from './core/semaphore.ts'
export type {
  AdapterServer,
  Adapters,
  Attachment,
  CachedMessage,
  CompletionRequest,
  ConversationEntry,
  Conversations,
  Entity,
  FactStore,
  Graph,
  GraphPart,
  Incoming,
  IncomingMessage,
  Kv,
  Llm,
  Memory,
  Messages,
  Place,
  PlatformAdapter,
  Processes,
  Program,
  ProgramProcess,
  ProgramSignal,
  ProgramStart,
  ProgramUsage,
  Registry,
  Relation,
  RememberedFact,
  ServerPrompt,
  ServerResource,
  Servers,
  ServerTool,
  Strand,
  Tasks,
  Threadweave,
  WeaveScope,
} from './core/service-types.ts'
export type { Effect, Example, NameOf, Needs } from './core/tool.ts'
export type { ToolLoop } from './core/tool-loop.ts'
export { type CallToolContext, type SentEntry, ToolContext } from './loader/tool-context.ts'
export type { RemoveResult } from './policy/change-files.ts'
export { type Connect, type ConnectInit, type ConnectOptions, createConnect } from './policy/connect.ts'
export { type FileToOpen, fileToOpen } from './policy/file-to-open.ts'
export { compileGlob, type Matcher } from './policy/glob.ts'
export { createFetch, type FetchOptions, type GuardedFetch } from './policy/guarded-fetch.ts'
export { ownFilesBelow } from './policy/own-files.ts'
export {
  createPaths,
  type FileFacts,
  type FolderEntry,
  type HeldFolder,
  type OpenFile,
  type OpenFolder,
  type Paths,
  type PathsOptions,
  type WalkOptions,
} from './policy/paths.ts'
export type { FileData, WriteOptions, WriteResult } from './policy/write-file.ts'
export { bubblewrapBase } from './programs/bubblewrap.ts'
export { exclusively } from './state/file-lock.ts'
