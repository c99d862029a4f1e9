/** Programs, libraries and system files; nothing secret of /etc. */
export const SYSTEM_FOLDERS: readonly string[] = [
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/nix/store',
  '/run/current-system',
]
const ETC =
  'alternatives bash.bashrc ca-certificates crypto-policies debian_version fonts group ld.so.cache ld.so.conf ld.so.conf.d localtime mime.types nsswitch.conf os-release passwd pki profile profile.d protocols services ssl/certs ssl/openssl.cnf terminfo timezone'.split(
    ' ',
  )

const TMP_BYTES = 256 * 1024 * 1024
const SHM_BYTES = 64 * 1024 * 1024

/** Files for resolving host names, if there is a network. */
const RESOLVER = ['resolv.conf', 'hosts', 'host.conf', 'gai.conf']

/**
 * The arguments of `bwrap` that every sandbox begins with: own process namespace, own /tmp, programs and system files
 * read-only, and no network unless requested. Mounts of the caller follow.
 * @param boundsTmp older releases of bubblewrap cannot limit the size of /tmp
 */
export const bubblewrapBase = (network: boolean, boundsTmp = true): string[] => [
  '--unshare-all',
  ...(network ? ['--share-net'] : []),
  '--die-with-parent',
  '--new-session',
  ...['--cap-drop', 'ALL'],
  ...SYSTEM_FOLDERS.flatMap((path) => ['--ro-bind-try', path, path]),
  ...[...ETC, ...(network ? RESOLVER : [])].flatMap((name) => ['--ro-bind-try', `/etc/${name}`, `/etc/${name}`]),
  // Even without capabilities, root could change kernel settings there, such as the core dump handler.
  ...['--proc', '/proc', '--remount-ro', '/proc', '--dev', '/dev'],
  // Otherwise files there could fill the memory.
  ...(boundsTmp ? ['--size', String(SHM_BYTES), '--tmpfs', '/dev/shm', '--remount-ro', '/dev'] : []),
  ...(boundsTmp ? ['--size', String(TMP_BYTES)] : []),
  ...['--tmpfs', '/tmp'],
]
