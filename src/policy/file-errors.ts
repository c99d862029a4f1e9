import { type ErrorCode, isPegboardError, ToolError } from '../core/errors.ts'

/** Error codes and sentences for errors of the operating system. `shown` is the path as the caller wrote it. */
const ERRORS: Readonly<Record<string, readonly [ErrorCode, string, string]>> = {
  ENOENT: ['E_NOT_FOUND', 'does not exist', 'List its folder to see what is there.'],
  ENOTDIR: ['E_NOT_FOUND', 'does not exist: a part of it is not a folder', 'List its folder to see what is there.'],
  EISDIR: ['E_NOT_REGULAR_FILE', 'is a folder', 'Name a regular file.'],
  ENXIO: ['E_NOT_REGULAR_FILE', 'is not a regular file', 'Name a regular file.'],
  EEXIST: ['E_TOOL_FAILED', 'exists already', 'Use another name.'],
  ELOOP: ['E_NOT_REGULAR_FILE', 'is a symbolic link', 'Name the file it leads to.'],
  EACCES: [
    'E_PATH_DENIED',
    'is not accessible: its permissions forbid it',
    'The operator can change the permissions of the file.',
  ],
  EPERM: [
    'E_PATH_DENIED',
    'is not accessible: the system forbids it',
    'The operator can change the permissions of the file.',
  ],
  EROFS: ['E_READ_ONLY', 'lies on a read-only file system', 'Write somewhere else.'],
  ENOSPC: ['E_TOOL_FAILED', 'could not be written: no space is left', 'Free some space first; nothing was changed.'],
  EDQUOT: [
    'E_TOOL_FAILED',
    'could not be written: the disk quota is used up',
    'Free some space first; nothing was changed.',
  ],
  EMFILE: ['E_OVERLOADED', 'could not be opened: too many files are open', 'Try again later.'],
  ENFILE: ['E_OVERLOADED', 'could not be opened: too many files are open', 'Try again later.'],
  ENOTEMPTY: ['E_TOOL_FAILED', 'is a folder that is not empty', 'Name its entries, or use recursive: true.'],
  EXDEV: ['E_TOOL_FAILED', 'lies on another file system', 'Copy it, then remove it.'],
  ENAMETOOLONG: ['E_VALIDATION', 'is too long', 'Use a shorter name.'],
}

/** Converts an error of `node:fs` to a ToolError; returns any other error unchanged. */
export function toFileError(error: unknown, shown: string): unknown {
  if (isPegboardError(error)) return error
  const [code, what, hint] = ERRORS[(error as NodeJS.ErrnoException).code ?? ''] ?? []
  return code ? new ToolError(`'${shown}' ${what}.`, { code, cause: error, ...(hint ? { hint } : {}) }) : error
}

export async function convertErrors<T>(shown: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw toFileError(error, shown)
  }
}
