//! Rows of volumes and what provides them.
//!
//! # In Kubernetes
//! `printPersistentVolume`, `printStorageClass` … in `pkg/printers/internalversion/printers.go`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{self, list, text, text_or, truth};
use super::{AGE, NAME, Printer, boolean, integer, string};

static PV: Printer = Printer::new(
    &[
        NAME,
        string("Capacity", "capacity is the description of the persistent volume's resources and capacity."),
        string("Access Modes", "accessModes contains all ways the volume can be mounted."),
        string("Reclaim Policy", "persistentVolumeReclaimPolicy defines what happens to a persistent volume when released from its claim."),
        string("Status", "phase indicates if a volume is available, bound to a claim, or released by a claim."),
        string("Claim", "claimRef is part of a bi-directional binding between PersistentVolume and PersistentVolumeClaim."),
        string("StorageClass", "StorageClass of the pv"),
        string("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
        string("Reason", "reason is a brief CamelCase string that describes any failure and is meant for machine parsing and tidy display in the CLI."),
        AGE,
        string("VolumeMode", "volumeMode defines if a volume is intended to be used with a formatted filesystem or to remain in raw block state.").wide(),
    ],
    pv_row,
);
static PVC: Printer = Printer::new(
    &[
        NAME,
        string("Status", "phase represents the current phase of PersistentVolumeClaim."),
        string("Volume", "volumeName is the binding reference to the PersistentVolume backing this claim."),
        string("Capacity", "capacity represents the actual resources of the underlying volume."),
        string(
            "Access Modes",
            "accessModes contains the actual access modes the volume backing the PVC has.",
        ),
        string("StorageClass", "StorageClass of the pvc"),
        string("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
        AGE,
        string("VolumeMode", "volumeMode defines what type of volume is required by the claim.").wide(),
    ],
    pvc_row,
);
static STORAGE_CLASS: Printer = Printer::new(
    &[
        NAME,
        string("Provisioner", "provisioner indicates the type of the provisioner."),
        string(
            "ReclaimPolicy",
            "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes of this storage class.",
        ),
        string(
            "VolumeBindingMode",
            "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.",
        ),
        string(
            "AllowVolumeExpansion",
            "allowVolumeExpansion shows whether the storage class allow volume expand.",
        ),
        AGE,
    ],
    class_row,
);
static VOLUME_ATTACHMENT: Printer = Printer::new(
    &[
        NAME,
        string("Attacher", "attacher indicates the name of the volume driver that MUST handle this request."),
        string("PV", "The persistent volume to attach."),
        string("Node", "nodeName represents the node that the volume should be attached to."),
        boolean("Attached", "attached indicates the volume is successfully attached."),
        AGE,
    ],
    |o, now| {
        vec![
            cells::name(o),
            json!(text(o, "/spec/attacher")),
            json!(text(o, "/spec/source/persistentVolumeName")),
            json!(text(o, "/spec/nodeName")),
            json!(truth(o, "/status/attached")),
            cells::age(o, now),
        ]
    },
);
static CSI_DRIVER: Printer = Printer::new(
    &[
        NAME,
        boolean(
            "AttachRequired",
            "attachRequired indicates this CSI volume driver requires an attach operation.",
        ),
        boolean(
            "PodInfoOnMount",
            "podInfoOnMount indicates this CSI volume driver requires additional pod information.",
        ),
        boolean(
            "StorageCapacity",
            "storageCapacity indicates that the CSI volume driver wants pod scheduling to consider the storage capacity.",
        ),
        string("TokenRequests", "tokenRequests indicates the CSI driver needs pods' service account tokens."),
        boolean(
            "RequiresRepublish",
            "requiresRepublish indicates the CSI driver wants NodePublishVolume being periodically called.",
        ),
        string("Modes", "volumeLifecycleModes defines what kind of volumes this CSI volume driver supports."),
        AGE,
    ],
    driver_row,
);
static CSI_NODE: Printer = Printer::new(
    &[NAME, integer("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), AGE],
    |o, now| vec![cells::name(o), json!(cells::count(o, "/spec/drivers")), cells::age(o, now)],
);
static CAPACITY: Printer = Printer::new(
    &[
        NAME,
        string(
            "StorageClassName",
            "storageClassName represents the name of the StorageClass that the reported capacity applies to.",
        ),
        string("Capacity", "capacity is the value reported by the CSI driver in its GetCapacityResponse."),
        AGE,
    ],
    |o, now| {
        vec![
            cells::name(o),
            json!(text(o, "/storageClassName")),
            json!(text_or(o, "/capacity", "<unset>")),
            cells::age(o, now),
        ]
    },
);

pub(super) fn core_printer(kind: &str) -> Option<&'static Printer> {
    match kind {
        "PersistentVolume" => Some(&PV),
        "PersistentVolumeClaim" => Some(&PVC),
        _ => None,
    }
}

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "StorageClass" => &STORAGE_CLASS,
        "VolumeAttachment" => &VOLUME_ATTACHMENT,
        "CSIDriver" => &CSI_DRIVER,
        "CSINode" => &CSI_NODE,
        "CSIStorageCapacity" => &CAPACITY,
        _ => return None,
    })
}

fn access_modes(modes: &[Value]) -> String {
    let mut short: Vec<&str> = Vec::new();
    for mode in ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"] {
        if modes.iter().any(|m| m == mode) {
            short.push(match mode {
                "ReadWriteOnce" => "RWO",
                "ReadOnlyMany" => "ROX",
                "ReadWriteMany" => "RWX",
                _ => "RWOP",
            });
        }
    }
    short.join(",")
}

fn phase(object: &Value) -> &str {
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null());
    if deleting { "Terminating" } else { text(object, "/status/phase") }
}

fn class(object: &Value) -> &str {
    let annotation = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";
    text_or(object, annotation, text(object, "/spec/storageClassName"))
}

fn pv_row(pv: &Value, now: Timestamp) -> Vec<Value> {
    let claim = match text(pv, "/spec/claimRef/name") {
        "" => String::new(),
        name => format!("{}/{name}", text(pv, "/spec/claimRef/namespace")),
    };
    vec![
        cells::name(pv),
        json!(text_or(pv, "/spec/capacity/storage", "0")),
        json!(access_modes(list(pv, "/spec/accessModes"))),
        json!(text(pv, "/spec/persistentVolumeReclaimPolicy")),
        json!(phase(pv)),
        json!(claim),
        json!(class(pv)),
        json!(text_or(pv, "/spec/volumeAttributesClassName", "<unset>")),
        json!(text(pv, "/status/reason")),
        cells::age(pv, now),
        json!(text_or(pv, "/spec/volumeMode", "<unset>")),
    ]
}

fn pvc_row(pvc: &Value, now: Timestamp) -> Vec<Value> {
    let bound = !text(pvc, "/spec/volumeName").is_empty();
    let (modes, capacity) = match bound {
        true => {
            (access_modes(list(pvc, "/status/accessModes")), text_or(pvc, "/status/capacity/storage", "0"))
        }
        false => (String::new(), ""),
    };
    vec![
        cells::name(pvc),
        json!(phase(pvc)),
        json!(text(pvc, "/spec/volumeName")),
        json!(capacity),
        json!(modes),
        json!(class(pvc)),
        json!(text_or(pvc, "/spec/volumeAttributesClassName", "<unset>")),
        cells::age(pvc, now),
        json!(text_or(pvc, "/spec/volumeMode", "<unset>")),
    ]
}

fn class_row(class: &Value, now: Timestamp) -> Vec<Value> {
    let marks =
        ["storageclass.kubernetes.io~1is-default-class", "storageclass.beta.kubernetes.io~1is-default-class"];
    let default = marks.iter().any(|m| text(class, &format!("/metadata/annotations/{m}")) == "true");
    let name = format!("{}{}", text(class, "/metadata/name"), if default { " (default)" } else { "" });
    vec![
        json!(name),
        json!(text(class, "/provisioner")),
        json!(text_or(class, "/reclaimPolicy", "Delete")),
        json!(text_or(class, "/volumeBindingMode", "Immediate")),
        json!(truth(class, "/allowVolumeExpansion")),
        cells::age(class, now),
    ]
}

fn driver_row(driver: &Value, now: Timestamp) -> Vec<Value> {
    let flag = |name: &str, default: bool| {
        driver.pointer(&format!("/spec/{name}")).and_then(Value::as_bool).unwrap_or(default)
    };
    let audiences: Vec<&str> =
        list(driver, "/spec/tokenRequests").iter().map(|t| text(t, "/audience")).collect();
    let tokens = if audiences.is_empty() { "<unset>".to_owned() } else { audiences.join(",") };
    let modes: Vec<&str> =
        list(driver, "/spec/volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    let modes = if modes.is_empty() { "<none>".to_owned() } else { modes.join(",") };
    vec![
        cells::name(driver),
        json!(flag("attachRequired", true)),
        json!(flag("podInfoOnMount", false)),
        json!(flag("storageCapacity", false)),
        json!(tokens),
        json!(flag("requiresRepublish", false)),
        json!(modes),
        cells::age(driver, now),
    ]
}
