// Keys of `_meta` that the protocol defines. The first four are in every 2026-07-28 request.
export const VERSION = 'io.modelcontextprotocol/protocolVersion'
export const CLIENT_INFO = 'io.modelcontextprotocol/clientInfo'
export const CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
export const LOG_LEVEL = 'io.modelcontextprotocol/logLevel'
export const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId'
