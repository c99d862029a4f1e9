/**
 * Facts about programs that can start other programs or write to files named in their arguments. Sources: GTFOBins
 * (https://gtfobins.github.io, commit 7382261ef936, functions shell, command, reverse-shell, bind-shell, library-load
 * and file-write) and the programs' manuals.
 */

/** Arguments with which a harmless program starts another or writes somewhere unexpected. */
export const RISKY_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  git: [
    '-c',
    '-c?*',
    '--config-env*',
    '--exec*',
    '--config*',
    '--template*',
    '--extcmd*',
    '--sendmail-cmd*',
    '--smtp-server*',
    '--upload-pack*',
    '--receive-pack*',
    '--ext-diff',
    '--output*',
    '--open-files-in-pager*',
    '-O*',
    '-C',
    '-C?*',
    '--git-dir*',
    '--work-tree*',
    // Their values would be taken for the command.
    '--namespace*',
    '--attr-source*',
    '--super-prefix*',
  ],
  find: ['-exec*', '-ok*', '-delete', '-fprint*', '-fls'],
  fd: ['-x*', '-X*', '--exec*'],
  tar: [
    '--to-command*',
    '--checkpoint-action*',
    '--use-compress-program*',
    '--rsh-command*',
    '--rmt-command*',
    '-I*',
    '--info-script*',
    '--new-volume-script*',
    '-F*',
  ],
  rg: ['--pre', '--pre=*', '--hostname-bin*'],
  sort: ['--compress-program*', '-o*', '--output*'],
  curl: [
    ...['-o*', '-O*', '--output*', '-K*', '--config*', '-T*', '--upload-file*', '-D*', '--dump-header*', '-c*'],
    ...['--cookie-jar*', '--trace*', '--stderr*', '--libcurl*', '--etag-save*', '--hsts*', '--alt-svc*'],
    ...['--remote-name*', '--remote-header-name', '-J*', '--output-dir*'],
  ],
  rsync: ['-e*', '--rsh*', '--rsync-path*'],
  zip: ['-T*', '-TT*', '--unzip-command*'],
  split: ['--filter*'],
  wget: [
    ...['-O*', '--output*', '-o*', '-a*', '--append-output*', '-e*', '--execute*', '--use-askpass*', '-P*'],
    ...['--directory-prefix*', '--config*', '--save-cookies*', '--warc-*', '--rejected-log*', '--hsts-file*'],
  ],
  man: ['-P*', '--pager*', '-H*', '--html*', '-C*', '--config-file*'],
  ssh: ['-o*', '-F*', '-E*', '-I*', '-S*', '-w*', '-L*', '-R*', '-D*', '-W*'],
  scp: ['-o*', '-F*', '-S*', '-D*'],
  'ssh-keygen': ['-D*', '-w*'],
  'ssh-keyscan': ['-D*', '-f*'],
  aria2c: ['--on-*', '--conf-path*', '-o*', '--out*', '-d*', '--dir*'],
  openssl: ['-engine*', '-provider-path*', '-out*'],
  tcpdump: ['-z*', '-w*', '-V*', '-F*'],
  file: ['-C*', '--compile*', '-m*', '--magic-file*'],
  date: ['-s*', '--set*'],
  yq: ['-i*', '--inplace*'],
  sysctl: ['-w*', '-p*', '--load*', '--system*', '--write*'],
}

/** Risky arguments of one subcommand, harmless for others. */
export const RISKY_SUBCOMMAND_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  'git clone': ['-u*'],
  'git archive': ['-o*'],
  'git format-patch': ['-o*'],
}

/** Letters that are followed by a value, for programs that combine several letters in one word. */
export const OPTIONS_WITH_VALUE: Readonly<Record<string, string>> = {
  git: 'ABeFGjLlmMSUtX',
  tar: 'bCfgHKLNTVX',
  curl: 'AbcCdDeEFhHmPQrtuUwxXyYz',
  sort: 'kStT',
  rsync: 'BMf',
  wget: 'aABDGiIlnoQtTUwX',
  fd: 'cdeEjoSt',
  zip: 'bnPst',
  man: 'eELmMprRsST',
  ssh: 'bBcDeEFIiJLlmOopQRSWw',
  scp: 'cDFiJloPSX',
  tcpdump: 'BcCDEFGijmMQrsTVwWyzZ',
}

/** Subcommands that start other programs, or configure what runs later, of programs allowed with any arguments. */
export const RISKY_SUBCOMMANDS: Readonly<Record<string, readonly string[]>> = {
  git: 'bisect citool config credential cvsserver daemon difftool filter-branch for-each-repo gui hook instaweb maintenance mergetool remote-ext rebase send-email shell submodule web--browse'.split(
    ' ',
  ),
}

/**
 * Programs that run whatever they are given: shells, interpreters, package managers, build tools, wrappers, editors,
 * and clients with their own commands.
 */
const RUNS_ANYTHING: ReadonlySet<string> = new Set(
  [
    'sh bash dash ash zsh fish ksh csh tcsh yash rc elvish mosh-server pwsh powershell cmd busybox toybox sash slsh tasksh xonsh nu',
    'node nodejs deno bun tsx ts-node python pypy jython ipython perl perlbug ruby irb php pdb lua luajit lualatex luatex tclsh expect wish awk gawk mawk nawk sed ed eb',
    'java javac jshell jjs jrunscript kotlin scala groovy ghc ghci runghc guile clisp sbcl ocaml erl elixir iex julia r rscript octave go gcc g++ cc c++ c89 c99 clang tcc rustc ld.so ld-linux dotnet mono swift zig nim cobc',
    'npm npx pnpm pnpx yarn yarnpkg corepack bunx pip pip3 pipx pipenv uv uvx poetry pdm conda mamba easy_install gem bundle bundler rake cargo rustup composer cpan cabal stack opam opkg hex mix mvn gradle ant sbt lein nix nix-shell brew apt apt-get aptitude dnf yum zypper dpkg rpm rpmdb rpmquery rpmverify snap flatpak pacman apk',
    'make gmake cmake ctest ninja just task meson bazel autoconf autoheader autoreconf m4 emcc jest mocha vitest pytest tox nox phpunit eslint webpack gulp grunt',
    'env xargs parallel nohup nice ionice timeout time watch entr setsid stdbuf script unshare nsenter chroot choom taskset chrt flock setlock softlimit setarch cpulimit pexec multitime rlwrap start-stop-daemon run-parts run-mailcap runscript torify torsocks strace ltrace perf valgrind gdb lldb bpftrace scanmem firejail bwrap proot fakeroot capsh arch-nspawn openvt catchsegv facter logsave tmate tmux screen dtach abduco sg',
    'sudo su doas ksu pkexec pkg aa-exec runuser systemd-run systemctl service busctl journalctl loginctl at batch crontab puppet knife ansible ansible-playbook ansible-test chef-solo vagrant terraform',
    'gh docker podman nerdctl ctr lxd lxc runc kubectl helm virsh aws gcloud az codex claude opencode code gimp ffmpeg',
    'vi vim nvim vimdiff rvim view rview vipw vigr nano pico emacs emacsclient micro less more most pg zless zmore',
    'psql mysql mariadb sqlite3 sqlmap redis-cli mongo mongosh sqlplus ftp sftp lftp ncftp tftp telnet mail smbclient nc ncat netcat socat socket nmap ncdu mosh sshfs sshpass sshuttle ssh-agent rclone restic borg',
    'tex latex pdftex pdflatex xelatex xetex dvips groff nroff troff pic eqn pandoc gnuplot zathura graphviz',
    'watchman forever pm2 foreman concurrently supervisord monit cron',
  ].flatMap((line) => line.split(' ')),
)

/** Programs that read options even after `--`; for find it ends link options only. */
export const READS_OPTIONS_AFTER_DASHES: ReadonlySet<string> = new Set(['find'])

/** Programs that run what the repository's configuration names. */
const OBEYS_REPOSITORY: ReadonlySet<string> = new Set('git gh hg jj'.split(' '))

/**
 * Programs that neither write nor start others, whatever their arguments, by the manuals of GNU coreutils 9, busybox,
 * FreeBSD and macOS. Not included although similar: `uniq` (writes to its second argument), `sort`, `shuf`, `tree`
 * and macOS `base64` (`-o`), `date` and `hostname` (set values), `diff` (starts `pr`), `ps` (shows variables of other
 * programs).
 */
const HARMLESS: ReadonlySet<string> = new Set(
  'basename cat cksum cmp comm cut df dirname du echo expr false fold groups head id join logname ls md5sum nl nproc od paste printf pwd readlink realpath seq sha1sum sha256sum sha512sum sleep stat tac tail test tr true tty uname uptime wc whoami'.split(
    ' ',
  ),
)

/** `/usr/bin/python3.12` counts as `python`, `pip3` as `pip`. */
export function baseName(program: string): string {
  const name = (program.split(/[\\/]/).at(-1) ?? '').toLowerCase().replace(/\.(?:exe|cmd|bat|com)$/, '')
  const isKnown = (program: string): boolean => RUNS_ANYTHING.has(program) || Object.hasOwn(RISKY_OPTIONS, program)
  return isKnown(name) ? name : name.replace(/[-\d.]+$/, '')
}

/** True if it runs whatever it is given. */
export const runsAnything = (program: string): boolean => RUNS_ANYTHING.has(baseName(program))

/** True if some of its options start other programs. */
export const startsOthers = (program: string): boolean => {
  const name = baseName(program)
  return RUNS_ANYTHING.has(name) || (RISKY_OPTIONS[name]?.length ?? 0) > 0
}

/** Those of them that open no file. */
const OPENS_NOTHING: ReadonlySet<string> = new Set(
  'basename dirname echo expr false groups id logname nproc printf pwd seq sleep tr true tty uname uptime whoami'.split(
    ' ',
  ),
)

/** True if it runs only in a sandbox: unknown programs, and programs named by a path. */
export const needsSandbox = (program: string): boolean => !HARMLESS.has(program)

/** True if its arguments may name files. */
export const opensFiles = (program: string): boolean => !OPENS_NOTHING.has(program)

/** True if the repository can decide what it runs. */
export const obeysRepository = (program: string): boolean => OBEYS_REPOSITORY.has(baseName(program))
