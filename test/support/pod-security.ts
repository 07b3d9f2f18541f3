// The Pod Security Standard `restricted`, control by control, with the words of its page: what the API server refuses a pod for.

interface Capabilities {
  add?: string[]
  drop?: string[]
}

interface SecurityContext {
  allowPrivilegeEscalation?: boolean
  appArmorProfile?: { type?: string }
  capabilities?: Capabilities
  privileged?: boolean
  procMount?: string
  runAsNonRoot?: boolean
  runAsUser?: number
  seccompProfile?: { type?: string }
  seLinuxOptions?: { role?: string; type?: string; user?: string }
  sysctls?: { name: string }[]
  windowsOptions?: { hostProcess?: boolean }
}

interface Handler {
  httpGet?: { host?: string }
  tcpSocket?: { host?: string }
}

interface SecuredContainer {
  lifecycle?: { postStart?: Handler; preStop?: Handler }
  livenessProbe?: Handler
  ports?: { hostPort?: number }[]
  readinessProbe?: Handler
  securityContext?: SecurityContext
  startupProbe?: Handler
}

/** A pod's specification, as far as the standard looks at it. */
interface PodSpec {
  containers: SecuredContainer[]
  ephemeralContainers?: SecuredContainer[]
  hostIPC?: boolean
  hostNetwork?: boolean
  hostPID?: boolean
  initContainers?: SecuredContainer[]
  securityContext?: SecurityContext
  volumes?: { name: string }[]
}

/** A pod, or the template of one. */
export interface SecuredPod {
  metadata?: { annotations?: Record<string, string> }
  spec: PodSpec
}

const capabilities = [
  ...['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'MKNOD', 'NET_BIND_SERVICE'],
  ...['SETFCAP', 'SETGID', 'SETPCAP', 'SETUID', 'SYS_CHROOT'],
]
const sysctls = [
  ...['kernel.shm_rmid_forced', 'net.ipv4.ip_local_port_range', 'net.ipv4.ip_unprivileged_port_start'],
  ...['net.ipv4.tcp_syncookies', 'net.ipv4.ping_group_range', 'net.ipv4.ip_local_reserved_ports'],
  ...['net.ipv4.tcp_keepalive_time', 'net.ipv4.tcp_fin_timeout', 'net.ipv4.tcp_keepalive_intvl'],
  ...['net.ipv4.tcp_keepalive_probes', 'net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem'],
]
const seLinuxTypes = ['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t']
const volumeTypes = [
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
]
const profileTypes = ['RuntimeDefault', 'Localhost']

/** An absent value, or one of these. */
const isOneOf = (value: string | undefined, allowed: readonly string[]): boolean =>
  value === undefined || allowed.includes(value)

interface Look {
  template: SecuredPod
  pod: PodSpec
  containers: SecuredContainer[]
  /** The security contexts of the pod and of each container. */
  contexts: SecurityContext[]
  /** Of each container: its own settings over those of the pod. */
  effective: SecurityContext[]
}

/** A control: true when a pod keeps to it. @see https://kubernetes.io/docs/concepts/security/pod-security-standards/ */
const controls: Record<string, (look: Look) => boolean> = {
  HostProcess: ({ contexts }) => contexts.every(({ windowsOptions }) => windowsOptions?.hostProcess !== true),
  'Host Namespaces': ({ pod }) => [pod.hostNetwork, pod.hostPID, pod.hostIPC].every((shared) => shared !== true),
  'Privileged Containers': ({ contexts }) => contexts.every(({ privileged }) => privileged !== true),
  'Capabilities (baseline)': ({ contexts }) =>
    contexts.every((context) => (context.capabilities?.add ?? []).every((name) => capabilities.includes(name))),
  'HostPath Volumes': ({ pod }) => (pod.volumes ?? []).every((volume) => !('hostPath' in volume)),
  'Host Ports': ({ containers }) =>
    containers.every(({ ports = [] }) => ports.every(({ hostPort = 0 }) => hostPort === 0)),
  'Host Probes / Lifecycle Hooks': ({ containers }) =>
    containers
      .flatMap(({ lifecycle, livenessProbe, readinessProbe, startupProbe }) => [
        ...[livenessProbe, readinessProbe, startupProbe],
        ...[lifecycle?.postStart, lifecycle?.preStop],
      ])
      .every((handler) => (handler?.httpGet?.host ?? '') === '' && (handler?.tcpSocket?.host ?? '') === ''),
  AppArmor: ({ contexts, template }) =>
    contexts.every(({ appArmorProfile }) => isOneOf(appArmorProfile?.type, profileTypes)) &&
    Object.entries(template.metadata?.annotations ?? {}).every(
      ([name, value]) =>
        !name.startsWith('container.apparmor.security.beta.kubernetes.io/') ||
        value === 'runtime/default' ||
        value.startsWith('localhost/'),
    ),
  SELinux: ({ contexts }) =>
    contexts.every(
      ({ seLinuxOptions: { role = '', type, user = '' } = {} }) =>
        isOneOf(type, seLinuxTypes) && role === '' && user === '',
    ),
  '/proc Mount Type': ({ contexts }) => contexts.every(({ procMount }) => isOneOf(procMount, ['Default'])),
  Seccomp: ({ contexts, effective }) =>
    contexts.every(({ seccompProfile }) => isOneOf(seccompProfile?.type, profileTypes)) &&
    effective.every(({ seccompProfile }) => seccompProfile?.type !== undefined),
  Sysctls: ({ contexts }) =>
    contexts.every((context) => (context.sysctls ?? []).every(({ name }) => sysctls.includes(name))),
  'Volume Types': ({ pod }) =>
    (pod.volumes ?? []).every((volume) =>
      Object.keys(volume).every((key) => key === 'name' || volumeTypes.includes(key)),
    ),
  'Privilege Escalation': ({ containers }) =>
    containers.every(({ securityContext }) => securityContext?.allowPrivilegeEscalation === false),
  'Running as Non-root': ({ contexts, effective }) =>
    contexts.every(({ runAsNonRoot }) => runAsNonRoot !== false) &&
    effective.every(({ runAsNonRoot }) => runAsNonRoot === true),
  'Running as Non-root user': ({ contexts }) => contexts.every(({ runAsUser }) => runAsUser !== 0),
  Capabilities: ({ containers }) =>
    containers.every(
      ({ securityContext: { capabilities: { add = [], drop = [] } = {} } = {} }) =>
        drop.includes('ALL') && add.every((name) => name === 'NET_BIND_SERVICE'),
    ),
}

/** Names of the controls that a pod, or the template of one, breaks; none when a namespace that enforces `restricted` takes it. */
export function brokenControls(manifest: object): string[] {
  const template = manifest as SecuredPod
  const { spec: pod } = template
  const containers = [...(pod.initContainers ?? []), ...pod.containers, ...(pod.ephemeralContainers ?? [])]
  const own = containers.map(({ securityContext = {} }) => securityContext)
  const look = {
    template,
    pod,
    containers,
    contexts: [pod.securityContext ?? {}, ...own],
    effective: own.map((context) => ({ ...pod.securityContext, ...context })),
  }
  return Object.entries(controls).flatMap(([name, isKept]) => (isKept(look) ? [] : [name]))
}
