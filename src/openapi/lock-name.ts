/** Key of an API in the lock file; no server can have this name. */
export const lockName = (id: string): string => `openapi.${id}`
